package config

import (
	"maps"
	"slices"
)

// maxGuess is the longest name for which a guess is worth its time.
const maxGuess = 100

// nearest returns the name that a typing error most likely meant: the closest one, at most a third of its letters off.
func nearest(typed string, names []string) (string, bool) {
	if len(typed) > maxGuess {
		return "", false
	}
	best, distance := "", len(typed)/3+1
	for _, name := range names {
		if d := editDistance(typed, name); d < distance {
			best, distance = name, d
		}
	}
	return best, best != ""
}

// editDistance counts the insertions, deletions and replacements between two names (Levenshtein).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replace := diagonal
			if a[i] != b[j] {
				replace++
			}
			diagonal = row[j+1]
			row[j+1] = min(replace, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
