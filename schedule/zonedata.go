package schedule

import (
	"archive/zip"
	"bufio"
	"bytes"
	_ "embed" // for the zone data
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sort"
	"strings"
	"sync"
	"time"
)

// The zone data of Go 1.26's lib/time, which builds the IANA release named
// below. The two are replaced together; a test compares known changes.
//
//go:embed zoneinfo.zip
var embeddedZones []byte

const embeddedZoneVersion = "2025c"

// maxZoneFileBytes is far above the largest zone file (about 4 kB).
const maxZoneFileBytes = 1 << 20

// A zoneSource is where zone data comes from: the embedded archive or what
// ZONEINFO names, never a mixture, so that two machines agree.
type zoneSource struct {
	version string
	files   fs.FS
	names   map[string]string // lower case to canonical spelling
}

// zoneData opens the source once. ZONEINFO is read at that moment only.
var zoneData = sync.OnceValues(func() (*zoneSource, error) {
	return openZoneSource(os.Getenv("ZONEINFO"))
})

// ZoneDataVersion names the zone data in use: an IANA release such as "2025c",
// or the path that ZONEINFO gives when that data does not name its release.
func ZoneDataVersion() string {
	source, err := zoneData()
	if err != nil {
		return "unreadable"
	}
	return source.version
}

// openZoneSource opens a zone directory or archive; "" is the embedded one.
func openZoneSource(path string) (*zoneSource, error) {
	source := &zoneSource{version: embeddedZoneVersion, names: make(map[string]string, 600)}
	if path == "" {
		archive, err := zip.NewReader(bytes.NewReader(embeddedZones), int64(len(embeddedZones)))
		if err != nil {
			return nil, fault(CodeZone, "tz", "", "the embedded zone data cannot be read: "+err.Error(), "the program file is damaged: install it again")
		}
		source.files = archive
	} else if err := source.openPath(path); err != nil {
		return nil, fault(CodeZone, "tz", path, "ZONEINFO cannot be read: "+err.Error(), "unset ZONEINFO to use the zone data inside the program")
	}
	err := fs.WalkDir(source.files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name == "posix" || name == "right" {
				return fs.SkipDir // the same zones again, the second with leap seconds
			}
			return nil
		}
		if isZoneName(name) {
			source.names[strings.ToLower(name)] = name
		}
		return nil
	})
	if err == nil && len(source.names) == 0 {
		err = errors.New("it holds no zones")
	}
	if err != nil {
		return nil, fault(CodeZone, "tz", path, "the zone data cannot be listed: "+err.Error(), "unset ZONEINFO to use the zone data inside the program")
	}
	return source, nil
}

func (s *zoneSource) openPath(path string) error {
	s.version = "ZONEINFO=" + path
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			return err
		}
		s.files = archive
		return nil
	}
	s.files = os.DirFS(path)
	for _, name := range []string{"+VERSION", "version", "tzdata.zi"} {
		if version, ok := s.readVersion(name); ok {
			s.version = version
			return nil
		}
	}
	return nil
}

// readVersion finds a release such as 2025c in the first line of a file.
func (s *zoneSource) readVersion(name string) (string, bool) {
	file, err := s.files.Open(name)
	if err != nil {
		return "", false
	}
	defer file.Close()
	line, _ := bufio.NewReaderSize(file, 256).ReadSlice('\n')
	version := strings.TrimSpace(strings.TrimPrefix(string(line), "# version "))
	if len(version) != 5 || !allDigits(version[:4]) {
		return "", false
	}
	return version, true
}

// isZoneName tells zones from what else lies in a zone directory.
func isZoneName(name string) bool {
	switch name {
	case "Factory", "localtime", "posixrules", "leapseconds", "security", "version":
		return false
	}
	if name == "" || name[0] < 'A' || name[0] > 'Z' {
		return false
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		letter := c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9'
		if !letter && c != '/' && c != '_' && c != '-' && c != '+' {
			return false
		}
	}
	return true
}

// load reads one zone. name comes from the list, so it cannot leave the source.
func (s *zoneSource) load(name string) (*time.Location, error) {
	data, err := s.read(name)
	if err == nil {
		var location *time.Location
		if location, err = time.LoadLocationFromTZData(name, data); err == nil {
			return location, nil
		}
	}
	return nil, fault(CodeZone, "tz", name, fmt.Sprintf("the data of %s cannot be read: %v", name, err), "choose another zone, or repair the directory that ZONEINFO names")
}

func (s *zoneSource) read(name string) ([]byte, error) {
	info, err := fs.Stat(s.files, name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxZoneFileBytes {
		return nil, fmt.Errorf("%d bytes are too many for a zone", info.Size())
	}
	return fs.ReadFile(s.files, name)
}

// sorted returns the zone names that the source holds, in order.
func (s *zoneSource) sorted() []string {
	list := make([]string, 0, len(s.names))
	for _, name := range s.names {
		list = append(list, name)
	}
	sort.Strings(list)
	return list
}

// canonical finds the spelling of a name.
func (s *zoneSource) canonical(name string) (string, bool) {
	found, ok := s.names[strings.ToLower(strings.Trim(name, " \t\r\n"))]
	return found, ok
}
