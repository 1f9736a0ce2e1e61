package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

// Units of Size.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var sizeUnits = []struct {
	name string
	size Size
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}}

var errSize = errors.New("not a size")

// ParseSize parses a number of bytes, with or without a binary unit, such as 1048576, 256KiB,
// 32MiB, 4GiB or 1TiB. Fractions, negative numbers and decimal units are errors.
func ParseSize(text string) (Size, error) {
	unit := Size(1)
	for _, u := range sizeUnits {
		if number, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimRight(number, " "), u.size
			break
		}
	}
	n, err := parseWhole(text)
	if err != nil || n < 0 || n > math.MaxInt64/int64(unit) {
		return 0, errSize
	}
	return Size(n) * unit, nil
}

// String formats the size with the largest unit that needs no fraction. ParseSize parses the
// result.
func (s Size) String() string {
	for _, u := range sizeUnits {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// parseWhole parses a decimal integer. As in YAML and Go, _ may group the digits.
func parseWhole(text string) (int64, error) {
	return strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 10, 64)
}
