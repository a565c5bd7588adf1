package dehydrator

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A Codec converts payloads to bytes and back. If Unmarshal returns an error, the task becomes a dead letter.
type Codec interface {
	Marshal(payload any) ([]byte, error)
	// Unmarshal stores what it reads in the value that payload points to.
	Unmarshal(element []byte, payload any) error
}

// JSON is the default codec, and that of the packages for Python and Node.
var JSON Codec = jsonCodec{}

// Raw transports the bytes of payloads of type []byte or string unchanged.
var Raw Codec = rawCodec{}

type jsonCodec struct{}

func (jsonCodec) Marshal(payload any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(payload); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}

func (jsonCodec) Unmarshal(element []byte, payload any) error {
	return json.Unmarshal(element, payload)
}

type rawCodec struct{}

func (rawCodec) Marshal(payload any) ([]byte, error) {
	switch payload := payload.(type) {
	case []byte:
		return payload, nil
	case string:
		return []byte(payload), nil
	}
	return nil, fmt.Errorf("dehydrator: Raw transports []byte and string, not %T", payload)
}

func (rawCodec) Unmarshal(element []byte, payload any) error {
	switch payload := payload.(type) {
	case *[]byte:
		*payload = element
	case *string:
		*payload = string(element)
	default:
		return fmt.Errorf("dehydrator: Raw transports []byte and string, not %T", payload)
	}
	return nil
}
