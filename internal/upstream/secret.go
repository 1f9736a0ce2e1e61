package upstream

import (
	"fmt"
	"io"
	"log/slog"
)

const redacted = "[redacted]"

// Secret is a string that formatting verbs, log handlers and encoders never reveal. Convert it to
// string to use it.
type Secret string

// Format prints the placeholder for every verb, even an invalid one.
func (Secret) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// String returns the placeholder.
func (Secret) String() string { return redacted }

// LogValue returns the placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns the placeholder.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
