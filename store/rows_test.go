package store

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// inTx runs f in a transaction of a new file and commits it.
func inTx(t *testing.T, f func(*Tx) error) {
	t.Helper()
	s, err := Open(Options{Path: filepath.Join(t.TempDir(), "rota.sqlite"), Durability: Normal, NowMs: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	tx, err := s.Begin()
	if err != nil {
		t.Fatal(err)
	}
	if err := f(tx); err != nil {
		t.Fatal(errors.Join(err, tx.Rollback()))
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestRunIDsAreReadBackStrictly(t *testing.T) {
	slot := SlotID("rota", "job <&> ü", 1_790_856_000_000, "")
	if k := ParseRunKey(slot); k != (RunKey{Kind: "slot", StoreKey: "rota", JobID: "job <&> ü", SlotMs: 1_790_856_000_000}) {
		t.Errorf("%+v", k)
	}
	again := SlotID("rota", "j", 5, "7")
	if k := ParseRunKey(again); k.Again != "7" || again == SlotID("rota", "j", 5, "") {
		t.Errorf("%+v", k)
	}
	manual := ManualID("/home/u/jobs.json", "j", "force", "k")
	if k := ParseRunKey(manual); k != (RunKey{Kind: "manual", StoreKey: "/home/u/jobs.json", JobID: "j", Mode: "force", Key: "k"}) {
		t.Errorf("%+v", k)
	}
	for name, id := range map[string]string{
		"random":             "5f2c1f0e-3f1c-4c8f-9b3e-0e6f0a1b2c3d",
		"padded":             slot + "=",
		"cut":                slot[:len(slot)-3],
		"other tag":          "cron-slot-v2." + slot[len(slotPrefix):],
		"two elements":       slotPrefix + idOf([]any{"rota", "j"}),
		"five elements":      slotPrefix + idOf([]any{"rota", "j", 1, "a", "b"}),
		"slot is text":       slotPrefix + idOf([]any{"rota", "j", "1"}),
		"slot is a fraction": slotPrefix + idOf([]any{"rota", "j", 1.5}),
		"slot is unsafe":     slotPrefix + idOf([]any{"rota", "j", int64(1) << 60}),
		"empty attempt":      slotPrefix + idOf([]any{"rota", "j", 1, ""}),
		"white space":        slotPrefix + "WyJyb3RhIiwgImoiLCAxXQ",
		"manual cut":         manual[:len(manual)-2],
	} {
		if k := ParseRunKey(id); k.Kind != "" {
			t.Errorf("%s: %q is taken for %+v", name, id, k)
		}
	}
}

// idOf encodes what an id may not hold, too.
func idOf(parts []any) string {
	raw, err := rawjson.Encode(parts)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// FuzzParseRunKey: whatever parses encodes back to the same id.
func FuzzParseRunKey(f *testing.F) {
	f.Add(SlotID("rota", "j", 1, ""))
	f.Add(ManualID("rota", "j", "force", "k"))
	f.Add("cron-slot-v1.")
	f.Fuzz(func(t *testing.T, id string) {
		switch k := ParseRunKey(id); k.Kind {
		case "slot":
			if SlotID(k.StoreKey, k.JobID, k.SlotMs, k.Again) != id {
				t.Errorf("%q reads as %+v", id, k)
			}
		case "manual":
			if ManualID(k.StoreKey, k.JobID, k.Mode, k.Key) != id {
				t.Errorf("%q reads as %+v", id, k)
			}
		}
	})
}

// State is written as the difference: keys that rota does not know, keys of
// the wrong type and the order of everything survive.
func TestStateKeepsWhatItDoesNotKnow(t *testing.T) {
	raw := []byte(`{"deliveryAdmission":{"a":[1,2]},"nextRunAtMs":1000,"lastStatus":7,"consecutiveErrors":2.0,"zz":null,"lastError":"x"}`)
	was, err := DecodeState(raw)
	if err != nil {
		t.Fatal(err)
	}
	if was.NextRunAtMs != Some(1000) || was.LastStatus != "" || was.ConsecutiveErrors != Some(2) || was.LastError != "x" {
		t.Fatalf("%+v", was)
	}
	same, err := EncodeState(raw, was, was, nil)
	if err != nil || !bytes.Equal(same, raw) {
		t.Fatalf("no change wrote %s, %v", same, err)
	}
	is := *was
	is.NextRunAtMs, is.LastError, is.RotaConsumedMs = Int{}, "", Some(1000)
	got, err := EncodeState(raw, was, &is, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"deliveryAdmission":{"a":[1,2]},"lastStatus":7,"consecutiveErrors":2.0,"zz":null,"rotaConsumedMs":1000}`
	if string(got) != want {
		t.Errorf("wrote %s\nwant  %s", got, want)
	}
	for _, bad := range []string{``, `[]`, `null`, `{`, `{"a":1}x`} {
		if _, err := DecodeState([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a state", bad)
		}
	}
}

// Every field of the codec survives being written and read, alone and with others.
func TestStateRoundTrip(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var was, is State
		for i := range stateFields {
			f := &stateFields[i]
			if rng.IntN(2) == 0 {
				continue
			}
			switch {
			case f.num != nil:
				*f.num(&is) = Some(rng.Int64N(1 << 50))
			case f.str != nil:
				*f.str(&is) = strings.Repeat("é\"<", rng.IntN(3)) + "x"
			default:
				*f.raw(&is) = json.RawMessage(`{"a":true}`)
			}
		}
		raw, err := EncodeState([]byte(`{"kept":1}`), &was, &is, nil)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeState(raw)
		if err != nil {
			t.Fatal(err)
		}
		again, err := EncodeState(raw, back, &is, nil)
		if err != nil || !bytes.Equal(again, raw) {
			t.Fatalf("seed %d: %s reads back differently: %s %v", seed, raw, again, err)
		}
	}
}

func TestOneOpenReceiptAJob(t *testing.T) {
	inTx(t, func(tx *Tx) error {
		open := Receipt{ID: "a", JobID: "j", StartedAtMs: 5, RequestRunID: "manual:j:5:1"}
		if err := InsertReceipt(tx, open); err != nil {
			return err
		}
		for _, r := range []Receipt{{ID: "b", JobID: "j", StartedAtMs: 6}, {ID: "a", JobID: "k", StartedAtMs: 6}} {
			if err := InsertReceipt(tx, r); Class(err) != Constraint {
				t.Errorf("receipt %+v: %v", r, err)
			}
		}
		if done, err := FinishReceipt(tx, "a", ReceiptOK, 9, ""); err != nil || !done {
			t.Errorf("finish: %v %v", done, err)
		}
		if done, err := FinishReceipt(tx, "a", ReceiptError, 10, "late"); err != nil || done {
			t.Errorf("a finished receipt was finished again: %v %v", done, err)
		}
		r, ok, err := ReceiptByID(tx, "a")
		if err != nil || !ok || r.Status != ReceiptOK || r.FinishedAtMs != 9 || r.RequestRunID != open.RequestRunID {
			t.Errorf("%+v %v %v", r, ok, err)
		}
		return nil
	})
}

func TestDecisionsOfOneRuleAreOneRow(t *testing.T) {
	inTx(t, func(tx *Tx) error {
		row := SlotRow{Seq: 1, JobID: "j", FromMs: 10, ToMs: 20, Slots: 2, Rule: "overlap", Verdict: "skipped", Detail: json.RawMessage(`{"runId":"a"}`), AtMs: 30}
		if err := InsertSlots(tx, row); err != nil {
			return err
		}
		next := row
		next.FromMs, next.ToMs, next.Slots, next.AtMs = 30, 40, 2, 50
		for _, c := range []struct {
			name   string
			change func(*SlotRow)
			extend bool
		}{
			{"the next range", func(*SlotRow) {}, true},
			{"the same range again", func(*SlotRow) {}, false},
			{"another run", func(r *SlotRow) { r.FromMs, r.ToMs, r.Detail = 50, 50, json.RawMessage(`{"runId":"b"}`) }, false},
			{"another rule", func(r *SlotRow) { r.FromMs, r.ToMs, r.Rule = 50, 50, "missed" }, false},
			{"another job", func(r *SlotRow) { r.FromMs, r.ToMs, r.JobID = 50, 50, "k" }, false},
		} {
			r := next
			c.change(&r)
			if extended, err := ExtendSlots(tx, r, 20); err != nil || extended != c.extend {
				t.Errorf("%s: extended %v, %v", c.name, extended, err)
			}
		}
		rows, err := SlotsAt(tx, "j", 35)
		if err != nil || len(rows) != 1 || rows[0].FromMs != 10 || rows[0].ToMs != 40 || rows[0].Slots != 4 {
			t.Errorf("%+v %v", rows, err)
		}
		return nil
	})
}

// A run's history row is found by its receipt, whatever public id follows, and
// only in its own partition.
func TestFinalizedHistoryIsFoundByItsReceipt(t *testing.T) {
	inTx(t, func(tx *Tx) error {
		row := func(task, receipt, public, storeKey string) HistoryRow {
			return HistoryRow{TaskID: task, JobID: "j", RunID: InternalRunID("j", 100, receipt, public), Status: "succeeded",
				StartedAtMs: 100, EndedAtMs: 200, CleanupMs: 300,
				Detail: json.RawMessage(`{"kind":"cron-run","status":"ok","storeKey":"` + storeKey + `","runId":"p"}`)}
		}
		for _, r := range []HistoryRow{row("1", "r1", "", "rota"), row("2", "r2", "manual:j:100:1", "rota"), row("3", "r3", "", "elsewhere"), row("4", "r11", "", "rota")} {
			if err := InsertHistory(tx, r); err != nil {
				return err
			}
		}
		for receipt, want := range map[string]string{"r1": "1", "r2": "2", "r3": "", "r": "", "r11": "4"} {
			got, ok, err := FinalizedHistory(tx, "j", 100, receipt)
			if err != nil || ok != (want != "") || got.TaskID != want {
				t.Errorf("receipt %s: row %q %v %v, want %q", receipt, got.TaskID, ok, err, want)
			}
		}
		return nil
	})
}

// A definition write by rota tells the owner of the permission columns so.
func TestDefinitionWriteDistrustsTheGrant(t *testing.T) {
	inTx(t, func(tx *Tx) error {
		row := JobRow{JobID: "j", Definition: json.RawMessage(`{"a":1}`), State: json.RawMessage(`{}`), UpdatedAtMs: 5,
			DefinitionColumns: DefinitionColumns{Name: "n", Enabled: true, PayloadKind: "command"}}
		rowID, err := InsertJob(tx, row)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(`UPDATE cron_jobs SET grant_definition_revision = 'h', grant_definition_updated_at = 5, grant_definition_generation = 3`); err != nil {
			return err
		}
		if err := UpdateState(tx, rowID, json.RawMessage(`{"x":1}`), 6); err != nil {
			return err
		}
		grant := func() (text string) {
			if err := tx.Query(`SELECT coalesce(grant_definition_revision, '-') || grant_definition_generation FROM cron_jobs`, nil,
				func(scan func(...any) error) error { return scan(&text) }); err != nil {
				t.Fatal(err)
			}
			return text
		}
		if grant() != "h3" {
			t.Errorf("a runtime write touched the grant: %s", grant())
		}
		if err := UpdateDefinition(tx, row); err != nil {
			return err
		}
		if grant() != "-4" {
			t.Errorf("after a definition write: %s", grant())
		}
		return nil
	})
}
