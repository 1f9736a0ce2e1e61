// Package plural makes nouns and verbs agree with counts in messages for people. It knows English
// nouns with a plural in -s; for other words callers pass both forms.
package plural

import "fmt"

// Number is any integer type used as a count.
type Number interface {
	~int | ~int32 | ~int64 | ~uint32 | ~uint64
}

// Count returns a count with its noun: "1 job", "2 jobs".
func Count[N Number](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, Form(n, noun, noun+"s"))
}

// Form returns the form of a word that agrees with a count.
func Form[N Number](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
