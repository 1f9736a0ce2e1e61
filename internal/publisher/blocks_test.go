package publisher

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCutKeepsEveryBlock checks that cutting a run keeps every block, and that a piece exceeds the
// limits only if it is a single block.
func TestCutKeepsEveryBlock(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 20), 1, 50).Draw(t, "blocks")
		first := rapid.Uint64Range(0, 1000).Draw(t, "first")
		count, size := rapid.IntRange(1, 10).Draw(t, "count"), rapid.IntRange(1, 60).Draw(t, "size")
		var run blocks
		for i, block := range want {
			if index := first + uint64(i); !run.fits(index) {
				t.Fatalf("block %d does not fit", index)
			} else {
				run.add(index, time.Now(), block)
			}
		}
		if run.fits(first + uint64(len(want)) + 1) {
			t.Fatal("a later block fits")
		}
		next := first
		for run.count() > 0 {
			piece := run.cut(count, size)
			if piece.first != next || piece.count() > count || piece.count() > 1 && piece.size() > size {
				t.Fatalf("piece of %d blocks, %d bytes, from %d; want %d", piece.count(), piece.size(), piece.first, next)
			}
			if !bytes.Equal(piece.bytes(), bytes.Join(piece.slices(), nil)) {
				t.Fatal("the bytes are not those of the blocks")
			}
			for _, block := range piece.slices() {
				if !bytes.Equal(block, want[next-first]) {
					t.Fatalf("block %d is %q", next, block)
				}
				next++
			}
		}
		if next != first+uint64(len(want)) {
			t.Fatalf("%d blocks came out", next-first)
		}
	})
}

func TestBudget(t *testing.T) {
	t.Parallel()
	b := NewBudget(10)
	if !b.Reserve(10) || b.Reserve(1) {
		t.Error("the budget is not 10")
	}
	b.Release(4)
	if !b.Reserve(4) || b.Reserve(1) {
		t.Error("what was given back is not there")
	}
	if unlimited := (*Budget)(nil); !unlimited.Reserve(1 << 40) {
		t.Error("no budget refuses")
	}
}
