package job

import "strings"

// secretEndings end the names of headers and query parameters whose values are
// secrets. A name is all there is to judge by: too many are masked rather than
// too few.
var secretEndings = []string{"authorization", "auth", "cookie", "token", "key", "secret", "password", "passwd", "signature", "credential", "credentials"}

// SecretName reports whether a header or a query parameter of this name is
// masked where people look: in lists and logs, not for who reads the job.
func SecretName(name string) bool {
	name = strings.ToLower(name)
	for _, ending := range secretEndings {
		if strings.HasSuffix(name, ending) {
			return true
		}
	}
	return name == "sig"
}

// Masked stands for a value that is not shown.
const Masked = "[masked]"

// MaskedURL is an address with its credentials, and the values of secret query
// parameters, masked. The rest keeps its spelling.
func MaskedURL(text string) string {
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
			text = scheme + "://" + Masked + rest[at:]
		}
	}
	address, query, ok := strings.Cut(text, "?")
	if !ok {
		return text
	}
	query, fragment, hasFragment := strings.Cut(query, "#")
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		if name, _, has := strings.Cut(p, "="); has && SecretName(name) {
			parameters[i] = name + "=" + Masked
		}
	}
	text = address + "?" + strings.Join(parameters, "&")
	if hasFragment {
		text += "#" + fragment
	}
	return text
}
