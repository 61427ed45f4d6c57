package schedule

import (
	"fmt"
	"strconv"
	"strings"
)

// abbreviations that people type for a zone. They name an offset, mean several
// places, and do not follow the clocks, so they only lead to a hint. EST, MST,
// HST, CET, EET, MET and WET are names of the zone data and are accepted.
var abbreviations = map[string]string{
	"PST": "America/Los_Angeles", "PDT": "America/Los_Angeles", "PT": "America/Los_Angeles",
	"MDT": "America/Denver", "MT": "America/Denver",
	"CST": "America/Chicago", "CDT": "America/Chicago", "CT": "America/Chicago",
	"EDT": "America/New_York", "ET": "America/New_York",
	"AKST": "America/Anchorage", "AKDT": "America/Anchorage",
	"BST": "Europe/London", "CEST": "Europe/Berlin", "EEST": "Europe/Helsinki", "WEST": "Europe/Lisbon",
	"MSK": "Europe/Moscow", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "KST": "Asia/Seoul",
	"SGT": "Asia/Singapore", "HKT": "Asia/Hong_Kong",
	"AEST": "Australia/Sydney", "AEDT": "Australia/Sydney", "AWST": "Australia/Perth",
	"NZST": "Pacific/Auckland", "NZDT": "Pacific/Auckland",
}

// refuse explains why a name is not a zone and what to type.
func (s *zoneSource) refuse(name string) error {
	trimmed := strings.Trim(name, " \t\r\n")
	if trimmed == "" {
		return fault(CodeZone, "tz", name, "the zone name is empty", "write an IANA name such as Europe/Berlin, or UTC")
	}
	if place, ok := abbreviations[strings.ToUpper(trimmed)]; ok {
		return fault(CodeZone, "tz", name, fmt.Sprintf("%q is an abbreviation, not a zone", echo(trimmed)), "write the place, e.g. "+place)
	}
	if hint, ok := offsetHint(trimmed); ok {
		return fault(CodeZone, "tz", name, fmt.Sprintf("%q is an offset, not a zone", echo(trimmed)), hint)
	}
	hint := "write an IANA name such as Europe/Berlin, or UTC"
	if near := s.nearest(trimmed); near != "" {
		hint = "did you mean " + near + "?"
	}
	return fault(CodeZone, "tz", name, fmt.Sprintf("%q is not a time zone of the zone data %s", echo(trimmed), s.version), hint)
}

// offsetHint recognises "+02:00", "-0330", "UTC+2", "GMT-5" and answers with the
// zone of that offset. The signs of the Etc names are reversed.
func offsetHint(text string) (string, bool) {
	upper := strings.ToUpper(text)
	rest := strings.TrimPrefix(strings.TrimPrefix(upper, "UTC"), "GMT")
	if len(rest) < 2 || (rest[0] != '+' && rest[0] != '-') {
		return "", false
	}
	clock := strings.ReplaceAll(rest[1:], ":", "")
	if !allDigits(clock) || len(clock) > 4 {
		return "", false
	}
	hours, minutes := clock, "00"
	if len(clock) > 2 {
		hours, minutes = clock[:len(clock)-2], clock[len(clock)-2:]
	}
	n, err := strconv.Atoi(hours)
	if err != nil || n > 14 || minutes != "00" {
		return "write the place, e.g. Asia/Kolkata; an offset does not say when clocks change", true
	}
	sign := "-"
	if rest[0] == '-' {
		sign = "+"
	}
	if n == 0 {
		return "write UTC", true
	}
	return fmt.Sprintf("write the place, or Etc/GMT%s%d for that fixed offset (the sign is reversed there)", sign, n), true
}

// maxNearBytes bounds the search for a similar name.
const maxNearBytes = 40

// nearest finds the zone whose city is text ("Berlin"), or whose name differs by
// at most two edits; "" when there is none.
func (s *zoneSource) nearest(text string) string {
	if len(text) > maxNearBytes {
		return ""
	}
	want := strings.ReplaceAll(strings.ToLower(text), " ", "_")
	best, bestEdits := "", 3
	for _, name := range s.sorted() {
		lower := strings.ToLower(name)
		if _, city, ok := strings.Cut(lower, "/"); ok && city == want {
			return name
		}
		if n := edits(want, lower); n < bestEdits {
			best, bestEdits = name, n
		}
	}
	return best
}

// edits is the Levenshtein distance of two short ASCII texts.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}

// HostZoneName decides the name of the host's zone from what the caller read:
// the TZ variable, the target of the link /etc/localtime, and the content of
// /etc/timezone, each empty when absent. TZ wins when it is set: a TZ that is
// not a name (such as "CET-1CEST") gives false, because the rest of the machine
// follows it and not the link.
func HostZoneName(tzEnv, localtimeLink, etcTimezone string) (string, bool) {
	source, err := zoneData()
	if err != nil {
		return "", false
	}
	if tz := strings.TrimPrefix(strings.TrimSpace(tzEnv), ":"); tz != "" {
		if name, ok := source.canonical(tz); ok {
			return name, true
		}
		return source.fromPath(tz)
	}
	if name, ok := source.fromPath(localtimeLink); ok {
		return name, true
	}
	first, _, _ := strings.Cut(strings.TrimSpace(etcTimezone), "\n")
	return source.canonical(first)
}

// fromPath takes the zone name out of a path such as
// /usr/share/zoneinfo/posix/Europe/Berlin.
func (s *zoneSource) fromPath(path string) (string, bool) {
	slashed := strings.ReplaceAll(path, `\`, "/")
	i := strings.LastIndex(slashed, "zoneinfo")
	if i < 0 {
		return "", false
	}
	_, name, ok := strings.Cut(slashed[i:], "/")
	if !ok {
		return "", false
	}
	name = strings.TrimPrefix(strings.TrimPrefix(name, "posix/"), "right/")
	return s.canonical(name)
}
