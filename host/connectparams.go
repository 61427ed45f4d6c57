package host

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"unicode/utf8"
)

// connectParams are what admit looks at. The rest of connect's parameters is
// checked and of no use here: rota pairs no devices and knows no profiles.
type connectParams struct {
	MinProtocol int64 `json:"minProtocol"`
	MaxProtocol int64 `json:"maxProtocol"`
	Client      struct {
		ID   string `json:"id"`
		Mode string `json:"mode"`
	} `json:"client"`
	Role   string   `json:"role"`
	Scopes []string `json:"scopes"`
	Auth   struct {
		Token          string `json:"token"`
		Password       string `json:"password"`
		DeviceToken    string `json:"deviceToken"`
		BootstrapToken string `json:"bootstrapToken"`
	} `json:"auth"`
	Device *struct {
		ID string `json:"id"`
	} `json:"device"`
}

// decodeConnect reads the parameters of connect, whose keys are closed at every
// level.
func decodeConnect(raw json.RawMessage) (connectParams, error) {
	var p connectParams
	checked, err := readParams("connect", raw)
	if err != nil {
		return p, err
	}
	if reason := connectShape("", checked.raw); reason != "" {
		return p, invalid("connect", reason)
	}
	if err := json.Unmarshal(checked.raw, &p); err != nil {
		return p, invalid("connect", err.Error())
	}
	return p, nil
}

// A shape says what is wrong with the value at a path, or "".
type shape func(path string, raw json.RawMessage) string

// member is one key of a closed object.
type member struct {
	required bool
	is       shape
}

var (
	clientIDs = []string{"webchat-ui", "openclaw-control-ui", "openclaw-browser-copilot", "openclaw-tui", "webchat", "cli", "gateway-client",
		"openclaw-macos", "openclaw-linux", "openclaw-ios", "openclaw-watchos", "openclaw-android", "node-host", "openclaw-worker", "test",
		"fingerprint", "openclaw-probe"}
	clientModes = []string{"webchat", "cli", "ui", "backend", "node", "worker", "probe", "test"}
)

// connectShape is the schema of connect's parameters.
var connectShape = closedObject(map[string]member{
	"minProtocol": {true, integerFrom(1)},
	"maxProtocol": {true, integerFrom(1)},
	"client": {true, closedObject(map[string]member{
		"id":              {true, oneOf(clientIDs)},
		"version":         {true, textUpTo(1, maxConnectText)},
		"platform":        {true, textUpTo(1, maxConnectText)},
		"mode":            {true, oneOf(clientModes)},
		"displayName":     {false, textUpTo(1, maxConnectText)},
		"buildId":         {false, textUpTo(1, 96)},
		"deviceFamily":    {false, textUpTo(1, maxConnectText)},
		"modelIdentifier": {false, textUpTo(1, maxConnectText)},
		"timeZone":        {false, textUpTo(1, 64)},
		"instanceId":      {false, textUpTo(1, maxConnectText)},
	})},
	"caps":         {false, listOfTexts},
	"commands":     {false, listOfTexts},
	"permissions":  {false, namedFlags},
	"pathEnv":      {false, textUpTo(0, maxConnectText)},
	"role":         {false, textUpTo(1, maxConnectText)},
	"scopes":       {false, listOfTexts},
	"modelCatalog": {false, anything},
	"computerUse":  {false, anything},
	"workerRuns":   {false, anything},
	"locale":       {false, textUpTo(0, maxConnectText)},
	"userAgent":    {false, textUpTo(0, maxConnectText)},
	"device": {false, closedObject(map[string]member{
		"id":        {true, textUpTo(1, maxConnectText)},
		"publicKey": {true, textUpTo(1, maxConnectText)},
		"signature": {true, textUpTo(1, maxConnectText)},
		"signedAt":  {true, integerFrom(0)},
		"nonce":     {true, textUpTo(1, maxConnectText)},
	})},
	"auth": {false, closedObject(map[string]member{
		"token":                     {false, textUpTo(0, maxConnectText)},
		"password":                  {false, textUpTo(0, maxConnectText)},
		"deviceToken":               {false, textUpTo(0, maxConnectText)},
		"bootstrapToken":            {false, textUpTo(0, maxConnectText)},
		"approvalRuntimeToken":      {false, textUpTo(0, maxConnectText)},
		"agentRuntimeIdentityToken": {false, textUpTo(0, maxConnectText)},
	})},
})

// maxConnectText is the longest text of a connect; the frame bounds all of
// them together.
const maxConnectText = 32_768

func closedObject(members map[string]member) shape {
	names := make([]string, 0, len(members))
	for name := range members {
		names = append(names, name)
	}
	sort.Strings(names)
	return func(path string, raw json.RawMessage) string {
		var values map[string]json.RawMessage
		if len(raw) == 0 || raw[0] != '{' || json.Unmarshal(raw, &values) != nil {
			return at(path) + "must be object"
		}
		for _, name := range names {
			if _, given := values[name]; members[name].required && !given {
				if path == "" {
					return fmt.Sprintf("must have required property '%s'", name)
				}
				return fmt.Sprintf("%smust have required property '%s'", at(path), name)
			}
		}
		given := make([]string, 0, len(values))
		for name := range values {
			given = append(given, name)
		}
		sort.Strings(given)
		for _, name := range given {
			if _, known := members[name]; !known {
				return fmt.Sprintf("%sunexpected property '%s'", at(path), name)
			}
		}
		for _, name := range given {
			if reason := members[name].is(path+"/"+name, values[name]); reason != "" {
				return reason
			}
		}
		return ""
	}
}

// at begins a reason with its place.
func at(path string) string {
	if path == "" {
		return "at root: "
	}
	return "at " + path + ": "
}

func integerFrom(low int64) shape {
	return func(path string, raw json.RawMessage) string {
		switch v, ok := wholeOf(raw); {
		case !ok:
			return at(path) + "must be integer"
		case v < low:
			return fmt.Sprintf("%smust be >= %d", at(path), low)
		}
		return ""
	}
}

func textUpTo(low, high int) shape {
	return func(path string, raw json.RawMessage) string {
		s, ok := textOf(raw)
		switch n := utf8.RuneCountInString(s); {
		case !ok:
			return at(path) + "must be string"
		case n < low:
			return fmt.Sprintf("%smust not have fewer than %d characters", at(path), low)
		case n > high:
			return fmt.Sprintf("%smust not have more than %d characters", at(path), high)
		}
		return ""
	}
}

func oneOf(words []string) shape {
	return func(path string, raw json.RawMessage) string {
		if s, ok := textOf(raw); !ok || !slices.Contains(words, s) {
			return at(path) + "must be equal to one of the allowed values"
		}
		return ""
	}
}

func listOfTexts(path string, raw json.RawMessage) string {
	if _, ok := textsOf(raw); !ok {
		return at(path) + "must be an array of strings"
	}
	return ""
}

func namedFlags(path string, raw json.RawMessage) string {
	var flags map[string]bool
	if string(raw) == "null" || json.Unmarshal(raw, &flags) != nil {
		return at(path) + "must be an object of booleans"
	}
	return ""
}

func anything(string, json.RawMessage) string { return "" }
