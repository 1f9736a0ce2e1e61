// Package subject names every stream, subject, header and durable consumer of genbus. Patterns,
// builders and parsers are side by side.
package subject

import (
	"fmt"
	"strings"
)

// Kind is the kind of a job and its token in subjects.
type Kind string

// Kinds of jobs.
const (
	Video Kind = "video"
	Chat  Kind = "chat"
)

// Kinds lists all kinds, in the order of the documents.
var Kinds = []Kind{Video, Chat}

// Valid reports whether k is one of the kinds.
func (k Kind) Valid() bool { return k == Video || k == Chat }

// DefaultPrefix is the default of nats.prefix, which begins every subject.
const DefaultPrefix = "genbus"

// maxToken is the length of the longest legal token, in bytes.
const maxToken = 64

// CheckToken returns an error unless s is a legal subject token of 1 to 64 characters from
// [A-Za-z0-9_-]. Nothing else may get into a subject.
func CheckToken(s string) error {
	if s == "" || len(s) > maxToken {
		return fmt.Errorf("%q is not a legal name: it needs 1 to %d characters of [A-Za-z0-9_-]", clip(s), maxToken)
	}
	for i := range len(s) {
		if !tokenByte(s[i]) {
			return fmt.Errorf("%q is not a legal name: only [A-Za-z0-9_-] may occur", clip(s))
		}
	}
	return nil
}

func tokenByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}

func clip(s string) string {
	if len(s) > maxToken {
		return s[:maxToken] + "..."
	}
	return s
}

// Space builds and parses the names under one prefix. Create it with New; the zero value is
// unusable.
type Space struct {
	prefix string
	stream string
}

// New returns the names under prefix, which is one or more legal tokens joined by dots. An empty
// prefix means DefaultPrefix.
func New(prefix string) (Space, error) {
	if prefix == "" {
		prefix = DefaultPrefix
	}
	for token := range strings.SplitSeq(prefix, ".") {
		if err := CheckToken(token); err != nil {
			return Space{}, fmt.Errorf("nats.prefix: %w", err)
		}
	}
	stream := strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(prefix))
	return Space{prefix: prefix, stream: stream}, nil
}

// Default returns the names under DefaultPrefix.
func Default() Space {
	return Space{prefix: DefaultPrefix, stream: "GENBUS"}
}

// Prefix returns the prefix.
func (s Space) Prefix() string { return s.prefix }

// StreamOf returns the stream that stores messages on a subject, or "" if no genbus stream does.
func (s Space) StreamOf(subject string) string {
	rest, ours := strings.CutPrefix(subject, s.prefix+".")
	if !ours {
		return ""
	}
	word, _, _ := strings.Cut(rest, ".")
	switch word {
	case "task", "done":
		return s.Tasks()
	case "work":
		return s.Work()
	case "wait":
		return s.Wait()
	case "usage":
		return s.UsageStream()
	case "request":
		return s.Requests()
	case "chunk":
		return s.Chunks()
	case "dead":
		return s.Dead()
	case "rejected":
		return s.Rejected()
	case "ops":
		return s.Ops()
	default:
		return ""
	}
}

// join builds a subject from the prefix and tokens, which the caller must have checked.
func (s Space) join(tokens ...string) string {
	n := len(s.prefix)
	for _, t := range tokens {
		n += 1 + len(t)
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteString(s.prefix)
	for _, t := range tokens {
		b.WriteByte('.')
		b.WriteString(t)
	}
	return b.String()
}

// split returns the n tokens of subject after prefix and word. It returns an error if the number of
// tokens differs or a token is illegal.
func (s Space) split(subject, word string, n int) ([]string, error) {
	rest, ok := strings.CutPrefix(subject, s.prefix+"."+word+".")
	if !ok {
		return nil, fmt.Errorf("subject %q does not start with %q", clip(subject), s.prefix+"."+word+".")
	}
	tokens := strings.Split(rest, ".")
	if len(tokens) != n {
		return nil, fmt.Errorf("subject %q has %d tokens after %q, not %d", clip(subject), len(tokens), word, n)
	}
	for _, t := range tokens {
		if err := CheckToken(t); err != nil {
			return nil, fmt.Errorf("subject %q: %w", clip(subject), err)
		}
	}
	return tokens, nil
}

func parseKind(token string) (Kind, error) {
	if k := Kind(token); k.Valid() {
		return k, nil
	}
	return "", fmt.Errorf("%q is not a job kind; use video or chat", clip(token))
}
