package dehydrator

import (
	"bytes"
	"encoding/json"
)

// The headers of a task carry the context of a trace: a JSON text as in RFC 7464, before the element. Without headers,
// an element is what the codec made.

// mark begins an element with headers. One that begins like this without headers gets empty ones.
var mark = []byte("\x1e{")

func wrap(headers map[string]string, element []byte) []byte {
	if len(headers) == 0 && !bytes.HasPrefix(element, mark) {
		return element
	}
	text := []byte("{}")
	if len(headers) > 0 {
		// A map of strings is always encoded.
		text, _ = json.Marshal(headers)
	}
	whole := make([]byte, 0, len(text)+len(element)+2)
	whole = append(whole, mark[0])
	whole = append(whole, text...)
	whole = append(whole, '\n')
	return append(whole, element...)
}

// unwrap returns the headers, and what the codec made.
func unwrap(element []byte) (map[string]string, []byte) {
	if !bytes.HasPrefix(element, mark) {
		return nil, element
	}
	text, rest, found := bytes.Cut(element, []byte("\n"))
	headers := map[string]string{}
	if !found || json.Unmarshal(text[1:], &headers) != nil {
		// Another program pushed it.
		return nil, element
	}
	return headers, rest
}
