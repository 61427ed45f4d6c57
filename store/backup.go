package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"modernc.org/sqlite"
)

const (
	// backupPages bounds one step. A step of so many takes about as long as one
	// sync of a commit; more of them save nothing.
	backupPages = 64
	// backupRestarts bounds how often SQLite may begin a copy anew, which it does
	// when a transaction that had changed pages is rolled back.
	backupRestarts = 32
	// checkCacheKiB is what the check of a copy keeps of it: it reads each page once.
	checkCacheKiB = 256
	// partSuffix names a backup that is not complete.
	partSuffix = ".part"
)

// Backup is a copy of the file while it is made, a step at a time. The
// connection that is copied is the only one that writes, so SQLite carries what
// is committed between two steps over into the pages already copied: the copy
// is of the moment of its last step.
//
// It belongs to the Store's goroutine. A failure of it is no failure of the
// Store.
type Backup struct {
	s        *Store
	copy     Copy
	running  *sqlite.Backup // nil after the end
	ended    error          // why it ended without a copy
	copied   int            // pages, to notice that it began anew
	restarts int
}

// Copy is a backup with every page and without its name: Publish or Discard it.
// It is a closed file that nobody else knows, and may be used in any goroutine.
type Copy struct {
	Path  string // as it will be
	Pages int
	Bytes int64
	part  string
}

// Backup begins a copy of the file to path, where nothing may be yet. It is
// written to path.part, which goes again if anything fails.
func (i *Idle) Backup(path string) (*Backup, error) {
	if err := i.usable("backup"); err != nil {
		return nil, err
	}
	if i.s.backup != nil {
		return nil, misuse("backup", i.s.path, "another one is under way")
	}
	path, err := backupTarget(path, i.s.path)
	if err != nil {
		return nil, err
	}
	b := &Backup{s: i.s, copy: Copy{Path: path, part: path + partSuffix}}
	f, err := openPrivate(b.copy.part, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, newError(CodeBackupFailed, "backup", path, err)
	}
	err = f.Close()
	if err == nil {
		b.running, err = b.s.session.conn.driver.(backupSource).NewBackup(dsn(b.copy.part, modeCopy))
	}
	if err != nil {
		removeDatabase(b.copy.part)
		return nil, newError(CodeBackupFailed, "backup", path, err)
	}
	b.s.backup = b
	return b, nil
}

// backupSource is what the driver's connection can do beside database/sql.
type backupSource interface {
	NewBackup(target string) (*sqlite.Backup, error)
}

// Step copies some pages. It gives the copy when that was the last of them, and
// nil before. After an error the backup has ended and nothing of it is left.
func (b *Backup) Step() (*Copy, error) { return b.step(backupPages) }

func (b *Backup) step(most int32) (*Copy, error) {
	if b.running == nil {
		return nil, b.ended
	}
	var more bool
	err := b.s.Idle().usable("backup")
	if err == nil {
		err = b.s.fault("backup")
	}
	if err == nil {
		more, err = b.running.Step(most)
	}
	pages, left := b.running.PageCount(), b.running.Remaining()
	if err == nil && more && pages-left < b.copied {
		if b.restarts++; b.restarts > backupRestarts {
			err = fmt.Errorf("it began anew %d times, as transactions were rolled back", b.restarts)
		}
	}
	b.copied = pages - left
	if err != nil {
		b.Abandon(newError(CodeBackupFailed, "backup", b.copy.Path, err))
		return nil, b.ended
	}
	if more {
		return nil, nil
	}
	return b.complete(pages)
}

// Flush gives what puts the pages copied so far on the disk. It is for another
// goroutine, between two steps: it takes as long as the disk does. Without it all
// is written at the end at once, and the commits of that moment wait behind it.
func (b *Backup) Flush() func() error {
	part := b.copy.part
	return func() error {
		f, err := os.OpenFile(part, os.O_RDWR, 0)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return newError(CodeBackupFailed, "backup", part, err)
		}
		return nil
	}
}

// complete closes a copy that has every page.
func (b *Backup) complete(pages int) (*Copy, error) {
	err := b.release()
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(b.copy.part)
	}
	if err != nil {
		removeDatabase(b.copy.part)
		b.ended = newError(CodeBackupFailed, "backup", b.copy.Path, err)
		return nil, b.ended
	}
	b.ended = misuse("backup", b.s.path, "the backup is complete")
	b.copy.Pages, b.copy.Bytes = pages, info.Size()
	return &b.copy, nil
}

// Abandon ends a backup that is under way and removes what it wrote. Step says
// why from then on.
func (b *Backup) Abandon(why error) {
	if b.running == nil {
		return
	}
	b.ended = why
	_ = b.release() // its error is that of the step before
	removeDatabase(b.copy.part)
}

func (b *Backup) release() error {
	err := b.running.Finish()
	b.running, b.s.backup = nil, nil
	return err
}

// dropBackup ends a backup whose connection is about to be closed.
func (s *Store) dropBackup(op string) {
	if s.backup != nil {
		s.backup.Abandon(newError(CodeBackupFailed, "backup", s.backup.copy.Path, fmt.Errorf("the database was given up meanwhile (%s)", op)))
	}
}

// backupTarget is the real path of a new backup, or why it cannot be there.
func backupTarget(path, database string) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", newError(CodeBackupPath, "backup", path, fmt.Errorf(format, args...))
	}
	if path == "" || os.IsPathSeparator(path[len(path)-1]) {
		return refuse("it has no file name")
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return refuse("%w", err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("there is no directory %s", filepath.Dir(abs))
	}
	if err != nil {
		return refuse("%w", err)
	}
	path = filepath.Join(dir, filepath.Base(abs))
	part := path + partSuffix
	if strings.EqualFold(path, database) || strings.EqualFold(part, database) {
		return refuse("the database itself would be in its way")
	}
	for _, side := range slices.Concat(sideSuffixes, []string{lockSuffix, newSuffix, partSuffix}) {
		if strings.HasSuffix(strings.ToLower(path), side) {
			return refuse("%s is how a file beside a database is named", side)
		}
	}
	if info, err := os.Lstat(path); err == nil {
		what := "file"
		if !info.Mode().IsRegular() {
			what = kindOf(info)
		}
		return "", newError(CodeBackupExists, "backup", path, fmt.Errorf("there is a %s here", what))
	} else if !errors.Is(err, fs.ErrNotExist) {
		return refuse("%w", err)
	}
	if _, err := os.Lstat(part); err == nil {
		e := newError(CodeBackupExists, "backup", part, errors.New("a backup to this name is being made, or was cut off"))
		e.Hint = "give another name, or, if none is being made: rm " + quotePath(part)
		return "", e
	}
	for _, side := range sideSuffixes {
		if _, err := os.Lstat(path + side); err == nil {
			return refuse("%s is there, and would be taken for a part of it", path+side)
		}
	}
	return path, nil
}

// NamelessCopy is a copy to path that another process made and left to this one.
func NamelessCopy(path string) *Copy { return &Copy{Path: path, part: path + partSuffix} }

// Publish makes the copy a database of its own that says it is a backup, checks
// it, and gives it its name when it is on the disk. That takes as long as the
// disk does; when ctx ends, it stops. After an error nothing is left.
//
// The caches of a process are one: the check takes pages from the other
// connections' and gives them back in one go, which stalls their statements for
// up to a tenth of a second. Where that matters another process publishes.
func (c *Copy) Publish(ctx context.Context, nowMs int64) (err error) {
	defer func() {
		if err != nil {
			c.Discard()
		}
	}()
	s, err := openSession(c.part, modeServe, Full)
	if err != nil {
		return newError(CodeBackupFailed, "backup", c.Path, err)
	}
	err = s.exec(fmt.Sprintf("PRAGMA cache_size=%d", -checkCacheKiB))
	if err == nil {
		err = markBackup(s, nowMs)
	}
	var finding string
	if err == nil {
		finding, err = firstFinding(ctx, s)
	}
	if err = also(err, s.close()); err == nil {
		err = ctx.Err()
	}
	switch {
	case ctx.Err() != nil:
		return newError(CodeInterrupt, "backup", c.Path, ctx.Err())
	case err != nil:
		return newError(CodeBackupFailed, "backup", c.Path, err)
	case finding != "ok":
		return newError(CodeBackupDamaged, "backup", c.Path, fmt.Errorf("%s (%w)", finding, Corrupt))
	}
	if side := sideFileOf(c.part); side != "" {
		return newError(CodeBackupFailed, "backup", c.Path, fmt.Errorf("%s is left over from its creation", side))
	}
	if err := publish(c.part, c.Path); err != nil {
		return newError(CodeBackupFailed, "backup", c.Path, err)
	}
	return nil
}

// Discard removes a copy that is not wanted.
func (c *Copy) Discard() { removeDatabase(c.part) }

// markBackup says in the copy that it is a backup, and that it is complete: the
// original was in use, and a copy of it that claims that lacks its log. A file
// of another program that is only shown has no place for it and needs none.
func markBackup(s *session, nowMs int64) error {
	ours, err := s.number("SELECT count(*) FROM sqlite_schema WHERE type='table' AND name='rota_meta'")
	if err != nil || ours == 0 {
		return err
	}
	if _, err := s.text("PRAGMA journal_mode=WAL"); err != nil {
		return err
	}
	err = writeMeta(s, map[string]string{metaClean: "1", metaBackup: strconv.FormatInt(nowMs, 10)})
	if err != nil {
		return err
	}
	_, err = s.checkpoint("TRUNCATE")
	return err
}
