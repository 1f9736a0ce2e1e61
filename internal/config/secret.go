package config

import "log/slog"

// Redacted is what a Secret shows to everyone but the caller of Reveal.
const Redacted = "[redacted]"

// Secret is a key or password that no print, log line or encoder shows. The zero value is empty.
//
// The text sits behind a pointer: fmt cannot call String on an unexported field, and prints an address there.
type Secret struct{ text *string }

// NewSecret wraps text.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal returns the secret itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether there is no secret.
func (s Secret) Empty() bool { return s.text == nil }

// Equal reports whether both hold the same text. It is for tests; Tenant compares in constant time.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

// String returns Redacted.
func (s Secret) String() string { return Redacted }

// GoString returns Redacted.
func (s Secret) GoString() string { return Redacted }

// MarshalJSON returns Redacted as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalYAML returns Redacted.
func (s Secret) MarshalYAML() (any, error) { return Redacted, nil }

// LogValue returns Redacted.
func (s Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }
