package publisher

import (
	"sync"
	"sync/atomic"
	"time"
)

// blocks is a run of consecutive blocks in one buffer.
type blocks struct {
	first uint64 // index of the first block
	start int    // where the first block begins in data
	data  []byte
	ends  []int // where each block ends in data
	at    []time.Time
}

func (b *blocks) count() int { return len(b.ends) }

func (b *blocks) size() int {
	if len(b.ends) == 0 {
		return 0
	}
	return b.ends[len(b.ends)-1] - b.start
}

// fits reports whether the block with this index may be added next.
func (b *blocks) fits(index uint64) bool {
	return len(b.ends) == 0 || index == b.first+uint64(len(b.ends))
}

func (b *blocks) add(index uint64, at time.Time, block []byte) {
	if b.ends == nil {
		*b = *buffers.Get().(*blocks)
	}
	if len(b.ends) == 0 {
		b.first = index
	}
	b.data = append(b.data, block...)
	b.ends = append(b.ends, len(b.data))
	b.at = append(b.at, at)
}

// cut removes blocks from the front and returns them. It removes at least one block and otherwise
// as many as the limits allow.
func (b *blocks) cut(count, bytes int) blocks {
	n := 1
	for n < min(len(b.ends), count) && b.ends[n]-b.start <= bytes {
		n++
	}
	head := blocks{first: b.first, start: b.start, data: b.data, ends: b.ends[:n], at: b.at[:n]}
	*b = blocks{first: b.first + uint64(n), start: b.ends[n-1], data: b.data, ends: b.ends[n:], at: b.at[n:]}
	return head
}

// bytes returns the concatenated blocks.
func (b *blocks) bytes() []byte { return b.data[b.start : b.start+b.size()] }

// slices returns the individual blocks. They share the buffer.
func (b *blocks) slices() [][]byte {
	out := make([][]byte, 0, len(b.ends))
	from := b.start
	for _, end := range b.ends {
		out = append(out, b.data[from:end:end])
		from = end
	}
	return out
}

// keepBuffer is the largest buffer that is reused, in bytes.
const keepBuffer = 256 << 10

// buffers holds empty runs. Idle writers hold none.
var buffers = sync.Pool{New: func() any { return new(blocks) }}

// release returns the run's buffer to the pool and empties the run.
func (b *blocks) release() {
	if b.ends != nil && cap(b.data) <= keepBuffer {
		buffers.Put(&blocks{data: b.data[:0], ends: b.ends[:0], at: b.at[:0]})
	}
	*b = blocks{}
}

// Budget bounds the bytes that many writers hold together. A nil *Budget is unlimited. It is safe
// for concurrent use.
type Budget struct {
	remaining atomic.Int64
}

// NewBudget returns a budget of the given number of bytes.
func NewBudget(bytes int) *Budget {
	b := new(Budget)
	b.remaining.Store(int64(bytes))
	return b
}

// Reserve reserves n bytes and reports whether they were available.
func (b *Budget) Reserve(n int) bool {
	if b == nil || b.remaining.Add(-int64(n)) >= 0 {
		return true
	}
	b.remaining.Add(int64(n))
	return false
}

// Release returns n bytes.
func (b *Budget) Release(n int) {
	if b != nil {
		b.remaining.Add(int64(n))
	}
}
