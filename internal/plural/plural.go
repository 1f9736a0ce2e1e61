// Package plural has nouns and verbs agree in number with their counts, in what people read. It
// knows English nouns that take an s; of all other words the caller has both forms.
package plural

import "fmt"

// Number is what can be counted.
type Number interface {
	~int | ~int32 | ~int64 | ~uint32 | ~uint64
}

// Count is a count with its noun: "1 job", "2 jobs".
func Count[N Number](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, Form(n, noun, noun+"s"))
}

// Form is the form of a word that agrees with a count.
func Form[N Number](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
