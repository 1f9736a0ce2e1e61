package protocol

import "strings"

// HasVersion reports whether the path of a base URL has a segment such as v1, v3, v1beta or
// v2alpha1. Some vendors have further segments after it, as in "/v1beta/openai".
func HasVersion(baseURL string) bool {
	_, rest, _ := strings.Cut(baseURL, "://")
	_, path, _ := strings.Cut(rest, "/")
	for segment := range strings.SplitSeq(path, "/") {
		if IsVersion(segment) {
			return true
		}
	}
	return false
}

// IsVersion reports whether a segment of a path is a version.
func IsVersion(segment string) bool {
	const digits = "0123456789"
	number, ok := strings.CutPrefix(segment, "v")
	stage := strings.TrimLeft(number, digits)
	if !ok || stage == number {
		return false
	}
	switch strings.Trim(stage, "."+digits) {
	case "", "alpha", "beta":
		return true
	default:
		return false
	}
}
