package upstream

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted replaces a key wherever one would be printed.
const redacted = "[redacted]"

// Secret is a string that no formatting verb, log handler or encoder prints.
// Convert it to string to use it.
type Secret string

// Format writes the placeholder for every verb, so that not even a wrong verb
// leaks the value.
func (Secret) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, redacted) }

// String gives the placeholder.
func (Secret) String() string { return redacted }

// LogValue gives the placeholder to slog.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText gives the placeholder to encoders.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
