package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rota-scheduler/rota/store"
	"github.com/rota-scheduler/rota/worker/job"
)

// faultAt makes a point fail from now on; nil for none.
func (s *served) faultAt(f func(point string) error) {
	if f == nil {
		s.fault.Store(nil)
		return
	}
	s.fault.Store(&f)
}

// heldAt holds the loop at the n-th step of a backup: at tells that it is
// there, goOn lets it go on for good.
func (s *served) heldAt(n int) (at <-chan struct{}, goOn func()) {
	there, release := make(chan struct{}), make(chan struct{})
	steps := 0
	s.faultAt(func(point string) error {
		if point == "backup" {
			if steps++; steps == n {
				close(there)
				<-release
			}
		}
		return nil
	})
	return there, sync.OnceFunc(func() { close(release) })
}

// params is a job that never comes due during a test, with so much text.
func params(name string, bytes int) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{"name":%q,"schedule":{"kind":"every","everyMs":86400000},"sessionTarget":"isolated",
		"payload":{"kind":"command","argv":["true",%q]}}`, name, strings.Repeat("x", bytes)))
}

// grow adds large jobs: of 40 a backup takes five steps, and more than one sync
// of 160.
func (s *served) grow(jobs int) {
	s.t.Helper()
	for i := range jobs {
		if _, err := s.Add(s.t.Context(), AddJob{ID: fmt.Sprintf("big-%03d", i), Params: params("big", 30_000)}); err != nil {
			s.t.Fatal(err)
		}
	}
}

// empty checks that nothing is left in a directory.
func empty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		t.Errorf("%s is left over", e.Name())
	}
}

// jobsOf opens a backup and gives its jobs, and whether SQLite finds it whole.
func jobsOf(t *testing.T, path string) (ids []string, fenced string) {
	t.Helper()
	s, err := store.Open(store.Options{Path: path, MachineID: "m1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	ids, err = rowsOf(tx, "SELECT job_id FROM cron_jobs ORDER BY job_id")
	if err != nil {
		t.Fatal(err)
	}
	said, err := rowsOf(tx, "PRAGMA integrity_check")
	if err := errors.Join(err, tx.Rollback()); err != nil || !slices.Equal(said, []string{"ok"}) {
		t.Errorf("%s: %v (%v)", filepath.Base(path), said, err)
	}
	return ids, s.Fenced()
}

// Four callers add jobs without a pause; twenty backups are made meanwhile.
func TestCase110EachBackupHoldsWhatWasAcknowledged(t *testing.T) {
	s := serve(t)
	s.grow(160)
	var mu sync.Mutex
	var acknowledged []string
	ctx, cancel := context.WithCancel(t.Context())
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("job-%d-%04d", w, i)
				if _, err := s.Add(context.Background(), AddJob{ID: id, Params: params(id, 10)}); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
			}
		})
	}
	out := t.TempDir()
	before := map[string][]string{}
	for i := range 20 {
		path := filepath.Join(out, fmt.Sprint(i))
		mu.Lock()
		before[path] = slices.Clone(acknowledged)
		mu.Unlock()
		made, err := s.Backup(t.Context(), Backup{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != made.Bytes || made.Pages < 64*flushSteps {
			t.Errorf("%+v, %v", made, err)
		}
	}
	cancel()
	writers.Wait()
	if len(acknowledged) < 20 {
		t.Errorf("only %d jobs were added: there was no load", len(acknowledged))
	}
	for path, want := range before {
		ids, fenced := jobsOf(t, path)
		if fenced == "" {
			t.Errorf("%s is served", path)
		}
		for _, id := range want {
			if _, there := slices.BinarySearch(ids, id); !there {
				t.Errorf("backup %s lacks %s", filepath.Base(path), id)
			}
		}
	}
}

func TestABackupServesOnceItIsAdopted(t *testing.T) {
	s := serve(t)
	s.grow(40)
	original, copied := s.path, filepath.Join(t.TempDir(), "copy.sqlite")
	if _, err := s.Backup(t.Context(), Backup{Path: copied}); err != nil {
		t.Fatal(err)
	}
	s.stop()
	s.path = copied
	s.start(false)
	if s.Fenced() == "" || s.Snapshot().Len() != 40 {
		t.Errorf("fenced %q, %d jobs", s.Fenced(), s.Snapshot().Len())
	}
	if _, err := s.Add(t.Context(), AddJob{ID: "new", Params: params("new", 1)}); !refused(err, job.CodeConflict) {
		t.Errorf("a write says %v", err)
	}
	again := filepath.Join(t.TempDir(), "again.sqlite") // what is shown can be copied too
	if _, err := s.Backup(t.Context(), Backup{Path: again}); err != nil {
		t.Error(err)
	}
	if ids, _ := jobsOf(t, again); len(ids) != 40 {
		t.Errorf("the copy of the copy has %d jobs", len(ids))
	}
	s.stop()
	s.start(true)
	if _, err := s.Add(t.Context(), AddJob{ID: "new", Params: params("new", 1)}); err != nil || s.Snapshot().Len() != 41 {
		t.Errorf("adopted: %d jobs, %v", s.Snapshot().Len(), err)
	}
	s.stop()
	s.path = original
	s.start(false) // the original is as it was
	if s.Fenced() != "" || s.Snapshot().Len() != 40 {
		t.Errorf("the original: fenced %q, %d jobs", s.Fenced(), s.Snapshot().Len())
	}
}

func refused(err error, code job.Code) bool {
	var refusal *job.Error
	return errors.As(err, &refusal) && refusal.Code == code && refusal.Message != "" && refusal.Hint != ""
}

func TestBackupsThatAreRefused(t *testing.T) {
	s := serve(t)
	out := t.TempDir()
	if err := os.WriteFile(filepath.Join(out, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, code := range map[string]job.Code{
		"relative":                      job.CodeInvalid,
		s.path:                          job.CodeInvalid,
		filepath.Join(out, "no", "dir"): job.CodeInvalid,
		filepath.Join(out, "there"):     job.CodeConflict,
	} {
		if _, err := s.Backup(t.Context(), Backup{Path: path}); !refused(err, code) {
			t.Errorf("%s: %v, want %s", path, err, code)
		}
	}
}

func TestOneBackupAtATime(t *testing.T) {
	s := serve(t)
	s.grow(40)
	out := t.TempDir()
	at, goOn := s.heldAt(2)
	defer goOn()
	first := make(chan error, 1)
	go func() {
		_, err := s.Backup(context.Background(), Backup{Path: filepath.Join(out, "first")})
		first <- err
	}()
	<-at
	if _, err := s.Backup(t.Context(), Backup{Path: filepath.Join(out, "second")}); !refused(err, job.CodeConflict) {
		t.Errorf("the second says %v", err)
	}
	goOn()
	if err := <-first; err != nil {
		t.Errorf("the first says %v", err)
	}
	if _, err := s.Backup(t.Context(), Backup{Path: filepath.Join(out, "second")}); err != nil {
		t.Errorf("afterwards the second says %v", err)
	}
}

// However a backup ends early, its caller is told, nothing of it is left, and
// the worker goes on.
func TestABackupThatEndsEarly(t *testing.T) {
	for how, c := range map[string]struct {
		end  func(s *served, giveUp func()) // while the loop is in the middle of it
		want func(error) bool
		over bool // the worker has ended too
	}{
		"given up": {end: func(_ *served, giveUp func()) { giveUp() },
			want: func(err error) bool { return errors.Is(err, context.Canceled) }},
		"its disk is full": {end: func(s *served, _ func()) {
			s.faultAt(func(point string) error {
				if point == "backup" {
					return store.DiskFull
				}
				return nil
			})
		}, want: func(err error) bool {
			return refused(err, job.CodeStorage) && store.Class(err) == store.DiskFull
		}},
		"the file is reopened": {end: func(s *served, _ func()) {
			failed := false
			s.faultAt(func(point string) error {
				if point == "commit-unknown" && !failed {
					failed = true
					return store.IO
				}
				return nil
			})
			s.commands.put(&call{command: AddJob{ID: "meanwhile", Params: params("meanwhile", 1)}, reply: make(chan answer, 1)})
		}, want: func(err error) bool { return refused(err, job.CodeStorage) }},
		"stopped": {end: func(s *served, _ func()) { s.quit() },
			want: func(err error) bool { return refused(err, job.CodeStopping) }, over: true},
	} {
		t.Run(how, func(t *testing.T) {
			s := serve(t)
			s.grow(40)
			out := t.TempDir()
			path := filepath.Join(out, "copy")
			ctx, giveUp := context.WithCancel(t.Context())
			defer giveUp()
			at, goOn := s.heldAt(3)
			defer goOn()
			result := make(chan error, 1)
			go func() {
				_, err := s.Backup(ctx, Backup{Path: path})
				result <- err
			}()
			<-at
			if _, err := os.Stat(path + ".part"); err != nil {
				t.Error(err)
			}
			c.end(s, giveUp)
			goOn()
			if err := <-result; !c.want(err) {
				t.Errorf("it says %v", err)
			}
			empty(t, out)
			if c.over {
				return
			}
			s.faultAt(nil)
			if _, err := s.Add(t.Context(), AddJob{ID: "after", Params: params("after", 1)}); err != nil {
				t.Errorf("afterwards a command says %v", err)
			}
			if _, err := s.Backup(t.Context(), Backup{Path: path}); err != nil {
				t.Errorf("afterwards a backup says %v", err)
			}
			if ids, _ := jobsOf(t, path); !slices.Contains(ids, "after") {
				t.Error("it lacks the newest job")
			}
		})
	}
}

// A copy that its caller wants to finish has no name yet.
func TestANamelessBackup(t *testing.T) {
	s := serve(t)
	s.grow(40)
	out := t.TempDir()
	path := filepath.Join(out, "copy")
	made, err := s.Backup(t.Context(), Backup{Path: path, Nameless: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has its name (%v)", err)
	}
	if err := store.NamelessCopy(made.Path).Publish(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if ids, _ := jobsOf(t, path); len(ids) != 40 {
		t.Errorf("%d jobs", len(ids))
	}
}
