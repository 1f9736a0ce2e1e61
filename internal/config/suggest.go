package config

import (
	"maps"
	"slices"
)

// maxGuess is the longest name for which a guess is worth its time.
const maxGuess = 100

// nearest returns the names that a typing error most likely meant: the closest ones, at most a third of the letters
// off, and one letter in any case. They are several where they are as close as each other.
func nearest(typed string, names []string) []string {
	if len(typed) > maxGuess {
		return nil
	}
	var best []string
	closest := max(len(typed)/3, 1)
	for _, name := range names {
		switch d := editDistance(typed, name); {
		case d > closest || d >= max(len(typed), len(name)): // nothing of it is right
		case d < closest:
			best, closest = []string{name}, d
		default:
			best = append(best, name)
		}
	}
	return best
}

// guess asks whether one of the nearest names was meant; it is false where none is near.
func guess(nearest []string) (question string, ok bool) {
	if len(nearest) == 0 {
		return "", false
	}
	return "did you mean " + alternatives(nearest) + "?", true
}

// editDistance counts the insertions, deletions, replacements and swaps of neighbours between two names (the
// restricted distance of Damerau and Levenshtein).
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
