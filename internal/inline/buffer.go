package inline

import "sync"

// blockBuffer is a run of blocks in one buffer.
type blockBuffer struct {
	data []byte
	ends []int
}

// keepBuffer is the largest buffer that is used again, in bytes.
const keepBuffer = 256 << 10

var buffers = sync.Pool{New: func() any { return new(blockBuffer) }}

// add copies a block and returns the bytes that wait.
func (b *blockBuffer) add(block []byte) int {
	if b.ends == nil {
		*b = *buffers.Get().(*blockBuffer)
	}
	b.data = append(b.data, block...)
	b.ends = append(b.ends, len(b.data))
	return len(b.data)
}

// release gives the buffer back; the run is empty afterwards.
func (b *blockBuffer) release() {
	if b.ends != nil && cap(b.data) <= keepBuffer {
		buffers.Put(&blockBuffer{data: b.data[:0], ends: b.ends[:0]})
	}
	*b = blockBuffer{}
}

func (b *blockBuffer) each(yield func([]byte) bool) {
	from := 0
	for _, end := range b.ends {
		if !yield(b.data[from:end]) {
			return
		}
		from = end
	}
}
