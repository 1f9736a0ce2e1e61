package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/genbus/genbus/test/powercut/disk"
)

// watched is a directory on a Disk.
type watched struct {
	t    *testing.T
	dir  string
	disk *disk.Disk
	fail error // error of the next syncs
}

func watch(t *testing.T) *watched {
	w := &watched{t: t, dir: t.TempDir()}
	w.disk = disk.Watch(w.dir, 0, func(string, int) error { return w.fail })
	t.Cleanup(w.disk.Close)
	return w
}

func (w *watched) path(name string) string { return filepath.Join(w.dir, name) }

func (w *watched) write(name, data string, synced bool) {
	w.t.Helper()
	f, err := os.OpenFile(w.path(name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = disk.Write(f, []byte(data), synced)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// has fails unless a cut leaves exactly these files.
func (w *watched) has(unsynced float64, want map[string]string) {
	w.t.Helper()
	got := w.disk.Cut(unsynced)
	for name, data := range want {
		if string(got[name]) != data {
			w.t.Errorf("%s has %q, want %q", name, got[name], data)
		}
	}
	if len(got) != len(want) {
		w.t.Errorf("there are %d files, want %d: %q", len(got), len(want), got)
	}
}

func TestWhatIsNotSyncedIsLeftOut(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.write("never", "x", false)
	w.write("1.blk", "abc", true)
	w.write("1.blk", "defg", false)
	w.has(0, map[string]string{"1.blk": "abc"})
	w.has(0.5, map[string]string{"1.blk": "abcde"})
	w.has(1, map[string]string{"1.blk": "abcdefg"})
	before := w.disk.Cut(0)
	w.write("1.blk", "h", true)
	w.has(0, map[string]string{"1.blk": "abcdefgh"})
	if string(before["1.blk"]) != "abc" {
		t.Errorf("what the disk had at a cut is %q now", before["1.blk"])
	}
}

func TestASyncThatFailsSyncsNothing(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.write("1.blk", "abc", true)
	f, err := os.OpenFile(w.path("1.blk"), os.O_APPEND|os.O_WRONLY, 0o600)
	w.must(err)
	w.fail = errors.New("the disk is broken")
	if _, err := disk.Write(f, []byte("def"), true); !errors.Is(err, w.fail) {
		t.Errorf("the sync failed with %v", err)
	}
	w.has(0, map[string]string{"1.blk": "abc"})
	w.fail = nil
	w.must(disk.Sync(f))
	w.must(f.Close())
	w.has(0, map[string]string{"1.blk": "abcdef"})
}

func TestNamesChangeWithTheNextSync(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.write("1.blk", "old", true)
	w.write("1.blk.tmp", "new", true)
	w.write("gone", "x", true)
	w.must(disk.Rename(w.path("1.blk.tmp"), w.path("1.blk")))
	w.must(disk.Remove(w.path("gone")))
	w.has(0, map[string]string{"1.blk": "old", "1.blk.tmp": "new", "gone": "x"})
	d, err := os.Open(w.dir)
	w.must(err)
	w.write("other", "y", true)
	w.has(0, map[string]string{"1.blk": "new", "other": "y"})

	w.write("1.blk.tmp", "newest", false)
	w.must(disk.Rename(w.path("1.blk.tmp"), w.path("1.blk")))
	w.must(os.Mkdir(w.path("more"), 0o700))
	w.write("more/1.blk", "z", true)
	w.must(disk.Rename(w.path("more"), w.path("moved")))
	w.must(disk.Sync(d))
	w.must(d.Close())
	w.has(1, map[string]string{"other": "y", "moved/1.blk": "z"}) // the unsynced file has replaced 1.blk
}

func TestAnImageIsWrittenAsItIs(t *testing.T) {
	t.Parallel()
	w := watch(t)
	w.must(os.Mkdir(w.path("a"), 0o700))
	w.write("a/b", "data", true)
	dir := t.TempDir()
	w.must(w.disk.Cut(0).Write(dir))
	got, err := os.ReadFile(filepath.Join(dir, "a", "b"))
	if err != nil || string(got) != "data" {
		t.Errorf("%q, %v", got, err)
	}
}
