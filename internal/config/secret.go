package config

import "log/slog"

// Redacted replaces a Secret in any output.
const Redacted = "[redacted]"

// Secret is a key or password that print functions, logs and encoders redact. The zero value is
// empty.
//
// The text is behind a pointer because fmt cannot call String on a Secret in an unexported field.
// With the pointer, it prints an address instead of the text.
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

// Empty reports whether the secret is empty.
func (s Secret) Empty() bool { return s.text == nil }

// Equal reports whether both hold the same text. Unlike Config.Tenant, it does not take constant
// time.
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
