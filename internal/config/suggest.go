package config

import (
	"maps"
	"slices"
)

// maxGuess bounds the length of names to compare, because comparing takes quadratic time.
const maxGuess = 100

// nearest returns the names with the smallest edit distance from typed, if that distance is at most
// a third of typed's length, or at most 1 for a short name. Several names may tie.
func nearest(typed string, names []string) []string {
	if len(typed) > maxGuess {
		return nil
	}
	var best []string
	closest := max(len(typed)/3, 1)
	for _, name := range names {
		switch d := editDistance(typed, name); {
		case d > closest || d >= max(len(typed), len(name)): // no letter matches
		case d < closest:
			best, closest = []string{name}, d
		default:
			best = append(best, name)
		}
	}
	return best
}

// guess returns a question that suggests the nearest names. The bool is false if there are none.
func guess(nearest []string) (question string, ok bool) {
	if len(nearest) == 0 {
		return "", false
	}
	return "did you mean " + alternatives(nearest) + "?", true
}

// editDistance counts the insertions, deletions, replacements and swaps of adjacent letters that
// turn one name into the other (restricted Damerau-Levenshtein distance).
func editDistance(a, b string) int {
	var before []int // the row before the last
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
