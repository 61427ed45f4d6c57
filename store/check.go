package store

import (
	"context"
	"fmt"
)

// quickCheckBytes bounds the check at opening: larger files take seconds, and
// then minutes, in which nothing is served.
const quickCheckBytes = 100 << 20

// quickCheckFindings is how many findings are asked for: one is enough to refuse.
const quickCheckFindings = 1

// quickCheck has SQLite look through the structure of the file. It does not
// see a bit flipped inside a value: rows have no checksum here.
func quickCheck(s *session) error {
	finding, err := firstFinding(context.Background(), s)
	if err == nil && finding != "ok" {
		err = fmt.Errorf("%s (%w)", finding, Corrupt)
	}
	return err
}

// firstFinding is "ok" where there is none.
func firstFinding(ctx context.Context, s *session) (finding string, err error) {
	err = s.oneUntil(ctx, fmt.Sprintf("PRAGMA quick_check(%d)", quickCheckFindings), nil, &finding)
	return finding, err
}

// tooLargeToCheck says so in words, "" if the file is small enough.
func tooLargeToCheck(seen files) string {
	const mebibyte = 20
	all := seen.bytes + seen.logBytes()
	if all <= quickCheckBytes {
		return ""
	}
	return fmt.Sprintf("not checked at this start: %d MiB is more than %d MiB", all>>mebibyte, quickCheckBytes>>mebibyte)
}

// inspect looks at a file by a connection of its own, which leaves the file
// and its log as they are, and checks it if asked.
func inspect(path string, mode sessionMode, check bool) (facts, error) {
	s, err := openSession(path, mode, Full)
	if err != nil {
		return facts{}, err
	}
	f, err := look(s)
	if err == nil && check {
		err = quickCheck(s)
	}
	return f, also(err, s.close())
}
