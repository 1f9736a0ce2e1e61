package config

import (
	"reflect"
	"testing"
	"time"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "1": 1, "1048576": MiB, "1_000": 1000, "256KiB": 256 * KiB, "32MiB": 32 * MiB, "4GiB": 4 * GiB, "1TiB": TiB,
		"4 GiB": 4 * GiB, "0KiB": 0, "9223372036854775807": 1<<63 - 1,
	} {
		if got, err := ParseSize(text); got != want || err != nil {
			t.Errorf("ParseSize(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "KiB", "-1", "-1KiB", "1.5GiB", "1KB", "1kib", "1 B", "0x10", "9223372036854775808", "8388608TiB", "1GiBGiB", " 1"} {
		if got, err := ParseSize(text); err == nil {
			t.Errorf("ParseSize(%q) = %d", text, got)
		}
	}
}

func FuzzParseSize(f *testing.F) {
	for _, text := range []string{"0", "1", "256KiB", "4 GiB", "-1", "8388607TiB", "1_0", "x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		size, err := ParseSize(text)
		if err != nil {
			return
		}
		if size < 0 {
			t.Fatalf("%q is %d", text, size)
		}
		if again, err := ParseSize(size.String()); again != size || err != nil {
			t.Fatalf("%q is %d, written %q, read back %d, %v", text, size, size, again, err)
		}
	})
}

func TestFormatDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: "0s", 10 * time.Millisecond: "10ms", 60 * time.Second: "60s", 120 * time.Second: "120s", 15 * time.Minute: "15m",
		10 * time.Minute: "10m", time.Hour: "1h", 90 * time.Minute: "1h30m", 10 * time.Hour: "10h", 168 * time.Hour: "168h",
		time.Hour + time.Second: "1h0m1s", 70 * time.Minute: "1h10m", -time.Minute: "-1m", 1500 * time.Millisecond: "1.5s",
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}

func FuzzDurations(f *testing.F) {
	for _, n := range []int64{0, 1, -1, int64(time.Minute), int64(10 * time.Hour), int64(70 * time.Minute), 1<<63 - 1, -1 << 63} {
		f.Add(n)
	}
	f.Fuzz(func(t *testing.T, n int64) {
		var back time.Duration
		text := formatDuration(time.Duration(n))
		if want := setScalar(reflect.ValueOf(&back).Elem(), text); want != "" || back != time.Duration(n) {
			t.Fatalf("%d is written %q and read back %d", n, text, back)
		}
	})
}
