package powercut_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// changes put the message store of nats-server 2.15.2 on a disk.Disk. times is the expected number
// of replacements: a new version that syncs elsewhere fails the build until someone reviews it.
var changes = []struct {
	of    *regexp.Regexp
	by    string
	times int
}{
	{regexp.MustCompile(`\b([a-zA-Z.]+)\.Sync\(\)`), "disk.Sync($1)", 9},
	{regexp.MustCompile(`\bos\.(Rename|Remove|RemoveAll)\(`), "disk.$1(", 52},
	// The only write to files opened with O_SYNC.
	{regexp.MustCompile(`\bf\.Write\(data\)`), "disk.Write(f, data, sync)", 1},
	{regexp.MustCompile(`\bos\.O_SYNC\b`), "0", 1},
	{regexp.MustCompile(`\nimport \(`), "${0}\n\t\"github.com/genbus/genbus/test/powercut/disk\"", 1},
}

func change(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	source := string(b)
	for _, c := range changes {
		if n := len(c.of.FindAllString(source, -1)); n != c.times {
			return fmt.Errorf("%s has %s %d times, not %d: is all that the store syncs still on the disk of these tests?", from, c.of, n, c.times)
		}
		source = c.of.ReplaceAllString(source, c.by)
	}
	if strings.Contains(source, ".Sync()") {
		return fmt.Errorf("%s syncs a file that is no variable", from)
	}
	return os.WriteFile(to, []byte(source), 0o600)
}
