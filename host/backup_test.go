package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBackupOverTheSocket(t *testing.T) {
	r := newGatewayRig(t)
	r.addJob("kept")
	out := t.TempDir()
	path := filepath.Join(out, "copy.sqlite")
	w := r.connect()
	w.send(`{"type":"req","id":"1","method":"rota.backup","params":{"path":` + string(quoted(path)) + `}}`)
	answer := w.mustFrame()
	payload, _ := answer["payload"].(map[string]any)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err, answer)
	}
	if payload["bytes"] != float64(info.Size()) || payload["checked"] != true || payload["pages"].(float64)*4096 != float64(info.Size()) {
		t.Errorf("%v of a file of %d bytes", payload, info.Size())
	}
	if _, ok := payload["tookMs"].(float64); !ok {
		t.Error(payload)
	}

	unchecked := filepath.Join(out, "other.sqlite")
	if got := r.ask("rota.backup", `{"path":`+string(quoted(unchecked))+`,"check":false}`); got["checked"] != false {
		t.Error(got)
	}
	if _, err := os.Stat(unchecked + ".part"); err != nil {
		t.Error(err)
	}

	again := r.refused("rota.backup", `{"path":`+string(quoted(path))+`}`)
	if again.Code != CodeInvalidRequest || again.Detail("reason") != "conflict" || !strings.Contains(again.Message, path) || again.Detail("hint") == "" {
		t.Errorf("%+v", again)
	}
}

// Whoever is on the network writes no file here.
func TestBackupIsForTheSocketAlone(t *testing.T) {
	r := newGatewayRig(t)
	path := filepath.Join(t.TempDir(), "copy.sqlite")
	w := r.enter(ScopeAdmin)
	w.send(`{"type":"req","id":"1","method":"rota.backup","params":{"path":` + string(quoted(path)) + `}}`)
	fault, _ := w.answer("1")["error"].(map[string]any)
	details, _ := fault["details"].(map[string]any)
	if fault["code"] != CodeForbidden || details["reason"] != "local_only" || details["hint"] == "" {
		t.Error(fault)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was written (%v)", err)
	}
	for _, m := range methodRows() {
		if m.Local && m.Scope != ScopeAdmin {
			t.Errorf("%s acts on this machine and needs %s", m.Name, m.Scope)
		}
	}
	found := false
	for _, m := range r.ask("rota.info", `{}`)["methods"].([]any) {
		row := m.(map[string]any)
		found = found || row["name"] == "rota.backup" && row["local"] == true
	}
	if !found {
		t.Error("info does not tell of it")
	}
}

// A caller that leaves ends what acts for it; other methods are carried out.
func TestALocalMethodEndsWithItsCaller(t *testing.T) {
	began, ended := make(chan string, 2), make(chan error, 2)
	wait := func(_ *Host, ctx context.Context, p params) (any, error) {
		began <- p.method
		select {
		case <-ctx.Done():
		case <-time.After(deadline):
		}
		ended <- ctx.Err()
		return struct{}{}, nil
	}
	r := newRig(t, nil, func(h *Host) {
		h.methods["rota.backup"] = method{Name: "rota.backup", Scope: ScopeAdmin, Local: true, Handle: wait}
	})
	for how, leave := range map[string]func(w *wire){
		"closes":       func(w *wire) { w.nc.Close() },
		"says no more": func(w *wire) { _ = w.nc.CloseWrite() },
	} {
		w := r.connect()
		w.send(`{"type":"req","id":"1","method":"rota.backup","params":{}}`)
		<-began
		leave(w)
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", how, err)
		}
	}
}
