package host

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/rota-scheduler/rota/worker"
)

// backupAnswer says what was copied. One that is not checked still lies at
// path.part: its caller gives it its name.
type backupAnswer struct {
	Path    string `json:"path"`
	Pages   int    `json:"pages"`
	Bytes   int64  `json:"bytes"`
	TookMs  int64  `json:"tookMs"`
	Checked bool   `json:"checked"`
}

// maxPathBytes is the longest path that any system here takes.
const maxPathBytes = 32 << 10

// rotaBackup copies the database to a file of this machine, for as long as the
// caller's connection lives. With check false it leaves the check and the name
// of the copy to the caller.
func (h *Host) rotaBackup(ctx context.Context, p params) (any, error) {
	if err := p.only("path", "check"); err != nil {
		return nil, err
	}
	path, err := p.text("path", maxPathBytes)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(path) {
		return nil, invalid(p.method, fmt.Sprintf("at /path: must be an absolute path, not %q", path))
	}
	check := true
	if _, given := p.members["check"]; given {
		if check, err = p.flag("check"); err != nil {
			return nil, err
		}
	}
	made, err := h.opts.Worker.Backup(ctx, worker.Backup{Path: path, Nameless: !check})
	if err != nil {
		return nil, err
	}
	return backupAnswer{Path: made.Path, Pages: made.Pages, Bytes: made.Bytes, TookMs: made.TookMs, Checked: check}, nil
}
