package sandbox

import (
	"encoding/json"
	"strconv"
	"sync"
)

// Answers are appended to byte slices by hand because benchmarks poll this server thousands of
// times a second on the cores they measure.

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

func appendJSON(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			quoted, err := json.Marshal(text)
			if err != nil { // unreachable, because strings always encode
				return append(b, `""`...)
			}
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

func appendField(b []byte, name, text string) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return appendJSON(b, text)
}

func appendIntField(b []byte, name string, n int64) []byte {
	b = append(b, `,"`...)
	b = append(b, name...)
	b = append(b, `":`...)
	return strconv.AppendInt(b, n, 10)
}

// appendCode appends a code, as a number if it is one.
func appendCode(b []byte, code string) []byte {
	if n, err := strconv.ParseInt(code, 10, 64); err == nil {
		return strconv.AppendInt(b, n, 10)
	}
	return appendJSON(b, code)
}

func appendSeconds(b []byte, seconds float64) []byte {
	return strconv.AppendFloat(b, seconds, 'f', -1, 64)
}
