package main

import (
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/rota-scheduler/rota/schedule"
)

// version is set by the release build (-ldflags "-X main.version=…").
var version = ""

type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	ZoneData string `json:"zoneData"`
}

// programVersion is what the release build set, else what the module says.
func programVersion() string {
	if version != "" {
		return version
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" && build.Main.Version != "(devel)" {
		return build.Main.Version
	}
	return "dev"
}

func newVersionCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  argsBetween(0, 0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			v := versionInfo{Version: programVersion(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, ZoneData: schedule.ZoneDataVersion()}
			if build, ok := debug.ReadBuildInfo(); ok {
				for _, s := range build.Settings {
					if s.Key == "vcs.revision" {
						v.Commit = s.Value
					}
				}
			}
			if asJSON {
				a.printJSON(v)
				return nil
			}
			a.printText("rota " + v.Version + " (" + v.OS + "/" + v.Arch + ", " + v.Go + ", zone data " + v.ZoneData + ")\n")
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
