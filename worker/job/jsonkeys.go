package job

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

// maxDepth bounds the nesting of what a client sends.
const maxDepth = 64

// CheckKeys refuses text that different readers would understand differently:
// an object that says a key twice, or two keys that only differ by case, at
// any depth. It also refuses what is not JSON, and nesting deeper than 64.
func CheckKeys(raw []byte) error {
	if !json.Valid(raw) {
		return &Error{Code: CodeInvalid, Message: "at root: must be valid JSON"}
	}
	return checkKeys(raw, "", 1)
}

func checkKeys(raw []byte, path string, depth int) error {
	text := trimSpace(raw)
	if len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil
	}
	if depth > maxDepth {
		return &Error{Code: CodeInvalid, Field: path, Message: fmt.Sprintf("at %s: nested deeper than %d levels", place(path), maxDepth)}
	}
	if text[0] == '[' {
		i := 0
		for value := range elements(text) {
			if err := checkKeys(value, path+"/"+strconv.Itoa(i), depth+1); err != nil {
				return err
			}
			i++
		}
		return nil
	}
	seen := make(map[string]string, 16)
	for key, value := range Members(text) {
		folded := foldKey(key)
		if before, ok := seen[folded]; ok {
			message := fmt.Sprintf("at %s: property '%s' is given twice", place(path), key)
			if before != key {
				message = fmt.Sprintf("at %s: properties '%s' and '%s' differ only by case", place(path), before, key)
			}
			return &Error{Code: CodeInvalid, Field: path + "/" + pointer(key), Message: message, Hint: "keep one of them"}
		}
		seen[folded] = key
		if err := checkKeys(value, path+"/"+pointer(key), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// elements walks the elements of a JSON array; the values are its own bytes.
func elements(array []byte) func(yield func(json.RawMessage) bool) {
	return func(yield func(json.RawMessage) bool) {
		i := 1
		for i < len(array) {
			for i < len(array) && (isSpace(array[i]) || array[i] == ',') {
				i++
			}
			end := skipValue(array, i)
			if end <= i || !yield(json.RawMessage(array[i:end])) {
				return
			}
			i = end
		}
	}
}

// foldKey maps a key to one spelling for all its simple case foldings, the
// equality that Go's own decoder uses for field names.
func foldKey(key string) string {
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
func pointer(key string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

func trimSpace(text []byte) []byte {
	for len(text) > 0 && isSpace(text[0]) {
		text = text[1:]
	}
	return trimSpaceRight(text, 0)
}
