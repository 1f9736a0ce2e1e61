package config

import (
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setScalar parses text into v, for both YAML and the environment. If text is invalid, it leaves v
// unchanged and returns the expected format.
func setScalar(v reflect.Value, text string) (want string) {
	switch v.Interface().(type) {
	case time.Duration:
		d, err := time.ParseDuration(text)
		if err != nil {
			return "a duration with a unit, such as 500ms, 10s, 15m or 48h"
		}
		v.SetInt(int64(d))
		return ""
	case Size:
		s, err := ParseSize(text)
		if err != nil {
			return "a size such as 256KiB, 32MiB, 4GiB or a number of bytes"
		}
		v.SetInt(int64(s))
		return ""
	}
	return setPlain(v, text)
}

func setPlain(v reflect.Value, text string) (want string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return "true or false"
		}
		v.SetBool(text == "true")
	case reflect.Int, reflect.Int64:
		n, err := parseWhole(text)
		if err != nil || v.OverflowInt(n) {
			return "a whole number"
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return "a number such as 0.1"
		}
		v.SetFloat(f)
	}
	return ""
}

// formatScalar formats a value in the notation that operators use and setScalar parses.
func formatScalar(v reflect.Value) string {
	switch value := v.Interface().(type) {
	case time.Duration:
		return formatDuration(value)
	case Size:
		return value.String()
	case string:
		return value
	case bool:
		return strconv.FormatBool(value)
	case float64:
		return strconv.FormatFloat(value, 'g', -1, 64)
	}
	return strconv.FormatInt(v.Int(), 10)
}

// formatDuration omits the zero units that time.Duration prints, so 48h0m0s becomes 48h. It uses
// seconds for up to two minutes, as is common for timeouts.
func formatDuration(d time.Duration) string {
	if d >= time.Minute && d <= 2*time.Minute && d%time.Second == 0 {
		return strconv.Itoa(int(d/time.Second)) + "s"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// structOf returns the struct that holds the keys below a field, and the path step that leads to
// it.
func structOf(t reflect.Type) (element reflect.Type, step string) {
	switch {
	case t.Kind() == reflect.Struct:
		return t, ""
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), ".<name>"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return t.Elem(), "[]"
	}
	return nil, ""
}
