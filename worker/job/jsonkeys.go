package job

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/rota-scheduler/rota/store/rawjson"
)

// maxDepth bounds the nesting of what a client sends.
const maxDepth = 64

// CheckKeys refuses text that different readers would understand differently:
// an object that says a key twice, or two keys that only differ by case, at
// any depth. It also refuses what is not JSON, and nesting deeper than 64.
func CheckKeys(raw []byte) error {
	if !rawjson.Valid(raw) {
		return &Error{Code: CodeInvalid, Message: "at root: must be valid JSON"}
	}
	return checkKeys(raw, "", 1)
}

func checkKeys(raw []byte, path string, depth int) error {
	text := bytes.TrimSpace(raw)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil
	}
	if depth > maxDepth {
		return &Error{Code: CodeInvalid, Field: path, Message: fmt.Sprintf("at %s: nested deeper than %d levels", place(path), maxDepth)}
	}
	if text[0] == '[' {
		i := 0
		for value := range rawjson.Elements(text) {
			if err := checkKeys(value, path+"/"+strconv.Itoa(i), depth+1); err != nil {
				return err
			}
			i++
		}
		return nil
	}
	seen := make(map[string]string, 16)
	for key, value := range rawjson.Members(text) {
		folded := foldKey(key)
		if before, ok := seen[folded]; ok {
			shown := cut(key, maxEchoBytes)
			message := fmt.Sprintf("at %s: property '%s' is given twice", place(path), shown)
			if before != key {
				message = fmt.Sprintf("at %s: properties '%s' and '%s' differ only by case", place(path), cut(before, maxEchoBytes), shown)
			}
			return &Error{Code: CodeInvalid, Field: path + "/" + pointer(shown), Message: message, Hint: "keep one of them"}
		}
		seen[folded] = key
		if err := checkKeys(value, path+"/"+pointer(cut(key, maxEchoBytes)), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// foldKey maps a key to one spelling for all its simple case foldings, the
// equality that Go's own decoder uses for field names.
func foldKey(key string) string {
	if isASCII(key) {
		return strings.ToUpper(key) // the least of a letter's foldings
	}
	return strings.Map(func(r rune) rune {
		least := r
		for next := unicode.SimpleFold(r); next != r; next = unicode.SimpleFold(next) {
			least = min(least, next)
		}
		return least
	}, key)
}

// place names a JSON pointer in a message; the empty one is "root".
func place(path string) string {
	if path == "" {
		return "root"
	}
	return path
}

// pointer escapes a key for use in a JSON pointer.
func pointer(key string) string { return pointerEscapes.Replace(key) }

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
