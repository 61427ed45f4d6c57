package schedule

import (
	"archive/zip"
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestZoneNamesAreFoundInAnyCaseAndKeptInTheirSpelling(t *testing.T) {
	for text, want := range map[string]string{
		"europe/berlin":     "Europe/Berlin",
		" America/New_York": "America/New_York",
		"utc":               "UTC",
		"Etc/GMT+2":         "Etc/GMT+2",
		"EST5EDT":           "EST5EDT",
		"asia/calcutta":     "Asia/Calcutta",
	} {
		if got := zone(t, text).Name(); got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	if zone(t, "Utc") != UTC() || zone(t, "europe/Oslo") != zone(t, "Europe/Oslo") {
		t.Error("a zone is loaded once")
	}
	if got := zone(t, "Europe/Oslo").Location().String(); got != "Europe/Oslo" {
		t.Errorf("the location is called %s", got)
	}
}

func TestZoneRefusalsSayWhatToType(t *testing.T) {
	for text, hint := range map[string]string{
		"+02:00":            "Etc/GMT-2",
		"-0500":             "Etc/GMT+5",
		"GMT+2":             "Etc/GMT-2",
		"UTC-11":            "Etc/GMT+11",
		"+05:30":            "Asia/Kolkata",
		"+00:00":            "write UTC",
		"PST":               "America/Los_Angeles",
		"Berlin":            "Europe/Berlin",
		"new york":          "America/New_York",
		"Europe/Berlim":     "Europe/Berlin",
		"Mars/Base":         "IANA name",
		"":                  "IANA name",
		"Local":             "IANA name",
		"Factory":           "IANA name",
		"../../etc/passwd":  "IANA name",
		"Europe/Berlin\x00": "Europe/Berlin",
	} {
		_, err := LoadZone(text)
		e, ok := err.(*Error)
		if !ok || e.Code != CodeZone || e.Field != "tz" || !strings.Contains(e.Hint, hint) {
			t.Errorf("%q: %#v, want a hint of %q", text, err, hint)
		}
	}
}

// Every zone of the data, at its changes and between, shows the offsets that the
// standard library shows.
func TestEveryZoneHasTheRightSegments(t *testing.T) {
	r := random(t)
	source, err := zoneData()
	if err != nil {
		t.Fatal(err)
	}
	names := source.sorted()
	if len(names) < 590 {
		t.Fatalf("only %d zones", len(names))
	}
	for _, name := range names {
		z := zone(t, name)
		check := func(sec int64) {
			seg := z.at(sec)
			_, want := time.Unix(sec, 0).In(z.Location()).Zone()
			if int(seg.offset) != want || sec < seg.start || sec >= seg.end {
				t.Fatalf("%s at %s: %+v, want offset %d", name, FormatInstant(sec*1000), seg, want)
			}
		}
		for i, seg := range z.segments {
			if i > 0 {
				if seg.start != z.segments[i-1].end || seg.offset == z.segments[i-1].offset {
					t.Fatalf("%s: segment %d %+v does not follow %+v", name, i, seg, z.segments[i-1])
				}
				check(seg.start - 1)
				check(seg.start)
			}
		}
		for range 20 {
			check(r.Int64N(9_000_000_000) - 4_000_000_000)
		}
		// The last day of leap years, within and beyond the table.
		for _, year := range []int{2040, 2096, 2104, 2400} {
			check(dayOf(year, 12, 31)*secondsPerDay + r.Int64N(secondsPerDay))
		}
	}
}

func TestFirstInstantOfAWallTime(t *testing.T) {
	z := zone(t, "America/New_York")
	wall := func(text string) int64 { return instant(t, text) / 1000 }
	for text, want := range map[string]string{
		"2026-07-01T12:00": "2026-07-01T16:00Z",
		"2026-11-01T01:30": "2026-11-01T05:30Z",
		"2026-03-08T03:00": "2026-03-08T07:00Z",
		"2140-11-06T01:30": "2140-11-06T05:30Z",
	} {
		if sec, _, ok := z.firstInstant(wall(text)); !ok || sec != wall(want) {
			t.Errorf("%s is %s %v, want %s", text, FormatInstant(sec*1000), ok, want)
		}
	}
	if sec, _, ok := z.firstInstant(wall("2026-03-08T02:30")); ok {
		t.Errorf("a jumped time is shown at %d", sec)
	}
}

func TestHostZoneName(t *testing.T) {
	for _, c := range []struct{ tz, link, file, want string }{
		{"", "/usr/share/zoneinfo/Europe/Berlin", "", "Europe/Berlin"},
		{"", "../usr/share/zoneinfo/posix/America/Argentina/Buenos_Aires", "", "America/Argentina/Buenos_Aires"},
		{"", "/var/db/timezone/zoneinfo/Asia/Tokyo", "", "Asia/Tokyo"},
		{"", "/usr/share/zoneinfo.default/Asia/Tokyo", "", "Asia/Tokyo"},
		{"", "", "Europe/Oslo\n", "Europe/Oslo"},
		{"", "/etc/somewhere", "Europe/Oslo\n# comment", "Europe/Oslo"},
		{"America/Chicago", "/usr/share/zoneinfo/Europe/Berlin", "Europe/Oslo", "America/Chicago"},
		{":europe/paris", "", "", "Europe/Paris"},
		{":/usr/share/zoneinfo/Europe/Paris", "", "", "Europe/Paris"},
		{"CET-1CEST,M3.5.0,M10.5.0/3", "/usr/share/zoneinfo/Europe/Berlin", "", ""},
		{"", "", "", ""},
		{"", "/usr/share/zoneinfo/localtime", "", ""},
		{"", "/usr/share/zoneinfo", "", ""},
	} {
		name, ok := HostZoneName(c.tz, c.link, c.file)
		if name != c.want || ok != (c.want != "") {
			t.Errorf("TZ=%q link %q file %q: %q %v, want %q", c.tz, c.link, c.file, name, ok, c.want)
		}
	}
}

// The embedded data is the release it says it is: Go 1.26 ships 2025c, which
// corrected Baja California in the past and has the 2025b zone Coyhaique.
func TestEmbeddedZoneData(t *testing.T) {
	source, err := openZoneSource("")
	if err != nil {
		t.Fatal(err)
	}
	if source.version != "2025c" {
		t.Errorf("version %s", source.version)
	}
	for _, name := range []string{"America/Coyhaique", "Europe/Kyiv", "Factory", "posixrules"} {
		got, ok := source.canonical(name)
		if want := strings.Contains(name, "/"); ok != want {
			t.Errorf("%s is %q %v", name, got, ok)
		}
	}
	if source.refuse("Mars/Base") == nil || !strings.Contains(source.refuse("Mars/Base").Error(), "2025c") {
		t.Error("a refusal names the release")
	}
}

// zoneinfoDir writes two zones and the usual other files, as a system has them.
func zoneinfoDir(t *testing.T) string {
	t.Helper()
	source, err := openZoneSource("")
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := source.read("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, data := range map[string][]byte{
		"Europe/Berlin":       berlin,
		"posix/Europe/Berlin": berlin,
		"right/Europe/Berlin": berlin,
		"Mars/Base":           berlin,
		"Bad/Data":            []byte("TZif but not really"),
		"posixrules":          berlin,
		"tzdata.zi":           []byte("# version 2030a\n# redo posix_only\n"),
		"iso3166.tab":         []byte("DE\tGermany\n"),
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestZoneinfoDirectoryIsUsedAlone(t *testing.T) {
	source, err := openZoneSource(zoneinfoDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if source.version != "2030a" {
		t.Errorf("version %s", source.version)
	}
	if names := strings.Join(source.sorted(), " "); names != "Bad/Data Europe/Berlin Mars/Base" {
		t.Errorf("zones: %s", names)
	}
	if _, err := source.load("Mars/Base"); err != nil {
		t.Error(err)
	}
	if _, err := source.load("Bad/Data"); code(err) != CodeZone {
		t.Errorf("a damaged zone: %v", err)
	}
	if _, ok := source.canonical("Asia/Tokyo"); ok {
		t.Error("a zone of the embedded data is mixed in")
	}
}

func TestZoneinfoArchive(t *testing.T) {
	var buffer bytes.Buffer
	w := zip.NewWriter(&buffer)
	source, err := openZoneSource("")
	if err != nil {
		t.Fatal(err)
	}
	oslo, err := source.read("Europe/Oslo")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := w.Create("Europe/Oslo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(entry, bytes.NewReader(oslo)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "zones.zip")
	if err := os.WriteFile(path, buffer.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	archive, err := openZoneSource(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := archive.load("Europe/Oslo"); err != nil {
		t.Error(err)
	}
	if archive.version != "ZONEINFO="+path {
		t.Errorf("version %s", archive.version)
	}
}

func TestZoneinfoThatCannotBeReadIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(file, []byte("no zones here"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(t.TempDir(), "missing"), file, t.TempDir()} {
		_, err := openZoneSource(path)
		if e, ok := err.(*Error); !ok || e.Code != CodeZone || !strings.Contains(e.Hint, "unset ZONEINFO") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestZonesAndSchedulesAreSharedSafely(t *testing.T) {
	names := []string{"Europe/Rome", "Asia/Tokyo", "America/Lima", "Europe/Rome"}
	e := expression(t, "*/5 * * * *")
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			z, err := LoadZone(names[i%len(names)])
			if err != nil {
				t.Error(err)
				return
			}
			s := Cron(e, z, Vixie, 0)
			atMs := int64(1_770_000_000_000)
			for range 200 {
				next, ok := s.Next(atMs)
				if !ok || next <= atMs || next > atMs+300_000 {
					t.Errorf("%s: %d after %d", z.Name(), next, atMs)
					return
				}
				atMs = next
			}
		})
	}
	group.Wait()
}

func TestCalendarAgreesWithTheStandardLibrary(t *testing.T) {
	r := random(t)
	for range 20_000 {
		day := r.Int64N(2*100_000_000) - 100_000_000
		want := time.Unix(day*secondsPerDay, 0).UTC()
		year, month, dom := dateOf(day)
		if year != want.Year() || month != int(want.Month()) || dom != want.Day() || weekdayOf(day) != int(want.Weekday()) {
			t.Fatalf("day %d is %d-%d-%d, want %s", day, year, month, dom, want)
		}
		if back := dayOf(year, month, dom); back != day {
			t.Fatalf("%d-%d-%d is day %d, want %d", year, month, dom, back, day)
		}
		if year < minYear || year > maxYear {
			continue
		}
		first := time.Date(year, time.Month(month), 1, 0, 0, 0, 0, time.UTC)
		if got := kindOfYear(year).firstWeekday(month); got != int(first.Weekday()) {
			t.Fatalf("%d-%d begins on weekday %d, want %s", year, month, got, first.Weekday())
		}
	}
}

func TestFormatInstantAgreesWithTheStandardLibrary(t *testing.T) {
	r := rand.New(rand.NewPCG(*seedFlag, 1))
	for range 5000 {
		ms := r.Int64N(313_000_000_000_000) - 62_000_000_000_000
		if want := time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z"); FormatInstant(ms) != want {
			t.Fatalf("%d is %s, want %s", ms, FormatInstant(ms), want)
		}
	}
	for ms, want := range map[int64]string{
		maxInstantMs:        "+275760-09-13T00:00:00.000Z",
		minInstantMs:        "-271821-04-20T00:00:00.000Z",
		-62_198_755_200_000: "-000001-01-01T00:00:00.000Z",
	} {
		if FormatInstant(ms) != want {
			t.Errorf("%d is %s, want %s", ms, FormatInstant(ms), want)
		}
	}
}
