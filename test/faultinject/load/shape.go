package load

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/genbus/genbus/test/faultinject/check"
)

// Shape is a property that all wishes of a burst have. The empty Shape allows any wish.
type Shape string

// The shapes.
const (
	// Large requests or their replies do not fit into a message.
	Large Shape = "large"
	// Duplicates are Large, and two clients send each of them at the same time.
	Duplicates Shape = "duplicates"
	// Plain requests are small, and their clients leave once the job is accepted.
	Plain Shape = "plain"
	// Cancelled jobs are cancelled within two seconds.
	Cancelled Shape = "cancelled"
)

const (
	// largeShare is the share of Large wishes.
	largeShare = 0.05
	// firstBurst is the number of the first wish of a burst. maxBurst is the maximum number of
	// wishes of one burst.
	firstBurst, maxBurst = 1_000_000, 10_000
)

// lengths holds the lengths of the long words in a request and its reply. 0 means no long word.
type lengths struct{ request, reply int }

const (
	kib = 1 << 10
	// claimCheck is the length of the longest body that a genbus message holds.
	claimCheck = 256 * kib
	// beyondPayload is larger than any message that the broker accepts.
	beyondPayload = 9 << 20
	// maxChunk bounds one streamed block, because a follower has a buffer of 1 MiB.
	maxChunk = 400 * kib
)

// drawLengths makes the request, the reply or both large.
func drawLengths(payload int, r *rand.Rand) lengths {
	claimCheck := min(claimCheck, payload/4)
	long := lengths{reply: claimCheck + r.IntN(maxChunk-claimCheck)}
	switch n := r.IntN(40); {
	case n == 0:
		long.request = beyondPayload
	case n < 8:
		long.request = 1024*kib + r.IntN(512*kib)
	case n < 32:
		long.request = claimCheck + r.IntN(128*kib)
	}
	if long.request > 0 && chance(r, 0.5) {
		long.reply = 0
	}
	return long
}

// base64Word returns at least n bytes of Base64, unique to this wish.
func base64Word(n int, r *rand.Rand) string {
	data := make([]byte, 0, n*3/4+8)
	for len(data) < n*3/4 {
		data = binary.LittleEndian.AppendUint64(data, r.Uint64())
	}
	return base64.StdEncoding.EncodeToString(data)
}

// natsEntry reports whether a request goes over NATS, whose messages have a size limit.
func (e entry) natsEntry() bool { return e.ingress == "inbox" || e.ingress == "call" }

// shape adapts a wish to its shape.
func (w *wish) shape(shape Shape, long lengths, payload int, r *rand.Rand) {
	if long.request > 0 {
		beyond := long.request >= payload*2/3 // Base64 adds a third
		w.stored = w.entry.natsEntry() && w.entry.form != asJSON && (beyond || chance(r, 0.3))
		if w.entry.natsEntry() && !w.stored && beyond {
			w.entry = entry{"http", asJSON, check.OpCreate}
		}
		if shape == Duplicates && w.entry.op != check.OpInline {
			w.key, w.rival, w.expires = "key-"+w.marker, "same", 0
		}
	}
	if shape == Plain || shape == Cancelled {
		w.plain(r)
	}
	if shape == Cancelled {
		w.cancel = time.Duration(100+r.IntN(1900)) * time.Millisecond
	}
}

// plain reduces a wish to a request that is sent until it is accepted.
func (w *wish) plain(r *rand.Rand) {
	w.entry = entry{"http", asJSON, check.OpCreate}
	if chance(r, 0.5) {
		w.entry = entry{"call", asJSON, check.OpCreate}
	}
	w.key, w.expires, w.follow, w.cancel, w.rival = "key-"+w.marker, 0, "", 0, ""
	w.reads, w.repeat, w.conflict, w.peeks = false, false, false, false
}

// due is a wish that must begin now.
type due struct {
	n     int
	shape Shape
}

// Burst begins n wishes of one shape as fast as possible while Run is running. burst is the number
// of the burst, starting at 0, and makes its wishes unique. Burst returns when all wishes have
// begun or no more can begin.
func (l *Load) Burst(ctx context.Context, burst, n int, shape Shape) {
	for i := range min(n, maxBurst) {
		select {
		case l.bursts <- due{firstBurst + burst*maxBurst + i, shape}:
		case <-l.stop:
			return
		case <-l.ended:
			return
		case <-ctx.Done():
			return
		}
	}
}
