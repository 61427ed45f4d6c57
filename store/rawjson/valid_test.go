package rawjson

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

// validSeeds are texts of every kind, right and wrong.
var validSeeds = []string{
	``, ` `, `{}`, `[]`, `{"a":1}`, ` { "a" : [ 1 , true , null , false ] } `, `{"a":1,}`, `[1,]`, `[,1]`, `{,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{1:2}`,
	`0`, `-0`, `01`, `-`, `1.`, `.5`, `1.5e3`, `1e+`, `1E-2`, `1e5.2`, `+1`, `--1`, `0x1`, `1 2`, `12345678901234567890`,
	`"a"`, `"a`, `"\"`, `"\u00e9"`, `"\u00eg"`, `"\u12"`, `"\x"`, `"\\"`, "\"\x01\"", "\"\x7f\xff\"", `"` + "\n" + `"`,
	`true`, `tru`, `trues`, `nul`, `nullnull`, `falsE`, `{"a":{"b":[{"c":"}"}]}}`, `{"a":1}}`, `[[]`, `]`, "\ufeff{}", `{"a":1 "b":2}`, "\v1",
	strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000), strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001),
	strings.Repeat(`{"a":`, 10_001) + "1" + strings.Repeat("}", 10_001),
}

func TestValidIsThatOfTheStandardLibrary(t *testing.T) {
	for _, text := range validSeeds {
		if got, want := Valid([]byte(text)), json.Valid([]byte(text)); got != want {
			t.Errorf("%.60q is valid: %t, want %t", text, got, want)
		}
	}
	// Every text of these with one byte changed, taken out or doubled.
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, seed))
	for range 50_000 {
		text := []byte(validSeeds[rng.IntN(len(validSeeds)-3)])
		if len(text) == 0 {
			continue
		}
		at := rng.IntN(len(text))
		switch rng.IntN(3) {
		case 0:
			const letters = "{}[]\",:0159.eE+-tfnu\\ /\n\x00x"
			text[at] = letters[rng.IntN(len(letters))]
		case 1:
			text = append(text[:at], text[at+1:]...)
		default:
			text = append(text[:at+1], text[at:]...)
		}
		if got, want := Valid(text), json.Valid(text); got != want {
			t.Fatalf("seed %d: %q is valid: %t, want %t", seed, text, got, want)
		}
	}
}

func FuzzValid(f *testing.F) {
	for _, text := range validSeeds {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if got, want := Valid(text), json.Valid(text); got != want {
			t.Fatalf("%q is valid: %t, want %t", text, got, want)
		}
	})
}

func BenchmarkValid(b *testing.B) {
	text := []byte(`{"id":"00000000-9b1c-4f0e-8a57-000000000000","name":"nightly report for tenant 12","description":"collects the figures of tenant 12 and writes them to the shared folder","enabled":true,` +
		`"createdAtMs":1795964145281,"schedule":{"kind":"every","everyMs":7776000000,"anchorMs":1795964145281},"payload":{"kind":"command","argv":["/usr/local/bin/report","--tenant","t-12"],"env":{"TENANT":"t-12"}},"state":{}}`)
	for name, valid := range map[string]func([]byte) bool{"rawjson": Valid, "json": json.Valid} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if !valid(text) {
					b.Fatal("not valid")
				}
			}
		})
	}
}
