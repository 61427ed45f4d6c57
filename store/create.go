package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	dirMode  = 0o700
	fileMode = 0o600

	// newSuffix names a database that is being created. A left-over of it is
	// removed, and nothing of that name is ever read.
	newSuffix = ".rota-new"
)

// sideSuffixes are the files SQLite keeps beside a database.
var sideSuffixes = []string{"-wal", "-shm", "-journal"}

// fsTrust says how far the locks of a file system go.
type fsTrust uint8

const (
	fsLocal    fsTrust = iota
	fsDoubtful         // named in the notes
	fsRefused
)

// realPath follows every link, also one whose target does not exist yet, and
// makes the directory. The result is the one name of the database.
func realPath(path string) (string, error) {
	if path == "" {
		return "", newError(CodeBadPath, "open", path, errors.New("the path is empty"))
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", wrapFile("open", path, err)
	}
	for range 40 {
		target, err := os.Readlink(abs)
		if err != nil {
			break // not a link: the directory part is resolved below
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(abs), target)
		}
		abs = target
	}
	if err := makeDir(filepath.Dir(abs)); err != nil {
		return "", wrapFile("open", abs, err)
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return "", wrapFile("open", abs, err)
	}
	resolved := filepath.Join(dir, filepath.Base(abs))
	info, err := os.Lstat(resolved)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", wrapFile("open", resolved, err)
	case !info.Mode().IsRegular():
		return "", newError(CodeBadPath, "open", resolved, fmt.Errorf("there is a %s here", kindOf(info)))
	}
	return resolved, nil
}

func kindOf(info os.FileInfo) string {
	switch {
	case info.IsDir():
		return "directory"
	case info.Mode()&fs.ModeSymlink != 0:
		return "chain of links without an end"
	}
	return "special file"
}

// makeDir creates what is missing, each directory for its owner alone whatever
// the umask says.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, dirMode)
}

// openPrivate opens a file that only its owner may read, whatever the umask
// and an earlier mode say.
func openPrivate(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag, fileMode)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode().Perm()&^fileMode != 0 && ownedByMe(info) {
		err = f.Chmod(fileMode)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// tighten takes the rights of others away from the database and what lies
// beside it. The directory is tightened only if nothing else lives in it: it
// may be somebody's home. The notes say what was changed.
func tighten(path string) (notes []string) {
	fix := func(name string, mode os.FileMode) {
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm()&^mode == 0 || !ownedByMe(info) {
			return
		}
		if err := os.Chmod(name, mode); err != nil {
			notes = append(notes, fmt.Sprintf("%s can be read by others (mode %04o): %v", name, info.Mode().Perm(), err))
			return
		}
		notes = append(notes, fmt.Sprintf("%s could be read by others: its mode is now %04o, was %04o", name, mode, info.Mode().Perm()))
	}
	fix(path, fileMode)
	for _, s := range sideSuffixes {
		fix(path+s, fileMode)
	}
	dir := filepath.Dir(path)
	if onlyOurs(dir, filepath.Base(path)) {
		fix(dir, dirMode)
	} else if info, err := os.Stat(dir); err == nil && othersMayReplace(info) {
		notes = append(notes, fmt.Sprintf("others may replace files in %s (mode %04o): chmod go-w %s", dir, info.Mode().Perm(), quotePath(dir)))
	}
	return notes
}

// othersMayReplace: the directory is writable for others, and without the
// sticky bit that would keep them to their own files.
func othersMayReplace(dir os.FileInfo) bool {
	return dir.Mode().Perm()&0o022 != 0 && dir.Mode()&os.ModeSticky == 0 && ownedByMe(dir)
}

// onlyOurs says whether a directory holds nothing but this database's files.
func onlyOurs(dir, base string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if e.Name() != base && !strings.HasPrefix(e.Name(), base+"-") && !strings.HasPrefix(e.Name(), base+".rota-") {
			return false
		}
	}
	return true
}

// createFile makes a complete, closed database and gives it its name last, so
// that a power cut leaves none or all of it. The caller has the lock.
func createFile(path string, fill func(*session) error) (err error) {
	temp := path + newSuffix
	removeDatabase(temp)
	defer func() {
		if err != nil {
			removeDatabase(temp)
		}
	}()
	f, err := openPrivate(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return wrapFile("open", path, err)
	}
	if err := f.Close(); err != nil {
		return wrapFile("open", path, err)
	}
	s, err := openSession(temp, modeServe, Full)
	if err != nil {
		return err
	}
	err = errors.Join(fill(s), s.close())
	if err != nil {
		return wrap("open", path, err)
	}
	if side := sideFileOf(temp); side != "" {
		return newError(CodeIO, "open", path, fmt.Errorf("%s is left over from its creation", side))
	}
	return wrapFile("open", path, publish(temp, path))
}

// removeDatabase removes a file of this package's making that has not got its
// name, and what lies beside it.
func removeDatabase(temp string) {
	_ = os.Remove(temp)
	for _, s := range sideSuffixes {
		_ = os.Remove(temp + s)
	}
}

// sideFileOf names a file that is left beside a closed database, "" if none is.
func sideFileOf(path string) string {
	for _, s := range sideSuffixes {
		if _, err := os.Lstat(path + s); err == nil {
			return filepath.Base(path) + s
		}
	}
	return ""
}

// publish syncs the new file, renames it, and syncs the directory.
func publish(temp, path string) error {
	f, err := os.OpenFile(temp, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s appeared while it was being created", path)
	}
	if err := os.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename durable. Windows cannot sync a directory and orders
// renames by itself.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// fillNew writes the first rows of a file that rota makes.
func fillNew(o Options, path, fileID string) func(*session) error {
	return func(s *session) error {
		for _, q := range []string{
			fmt.Sprintf("PRAGMA application_id=%d", applicationID),
			"PRAGMA journal_mode=WAL",
			"BEGIN IMMEDIATE", cronTablesSQL, rotaTablesSQL,
		} {
			if err := s.exec(q); err != nil {
				return err
			}
		}
		if err := writeMeta(s, firstMeta(o, path, fileID)); err != nil {
			return err
		}
		return s.exec("COMMIT")
	}
}
