package main

import (
	"math"
	"strconv"
	"sync/atomic"
	"time"
)

// delayStep is the ratio of adjacent bucket bounds, and thus the error of a quantile.
const delayStep = 1.02

// delays is a histogram of the delays of chunks published after from. Its buckets start at one
// microsecond.
type delays struct {
	from    atomic.Int64 // Unix nanoseconds; 0 while nothing is counted
	count   atomic.Int64
	buckets [1024]atomic.Int64
}

// add counts a block for a follower that had joined before it was published.
func (d *delays) add(block []byte, joined int64) {
	from := d.from.Load()
	if from == 0 || len(block) < len(blockHead)+sentDigits {
		return
	}
	sent, err := strconv.ParseInt(string(block[len(blockHead):len(blockHead)+sentDigits]), 10, 64)
	if err != nil || sent < max(from, joined) {
		return
	}
	d.observe(time.Duration(time.Now().UnixNano() - sent))
}

func (d *delays) observe(delay time.Duration) {
	at := math.Log(max(float64(delay)/float64(time.Microsecond), 1)) / math.Log(delayStep)
	d.buckets[min(int(at), len(d.buckets)-1)].Add(1)
	d.count.Add(1)
}

// quantile returns the upper bound of the bucket with the quantile, in seconds. It returns NaN
// without observations.
func (d *delays) quantile(q float64) float64 {
	want := int64(math.Ceil(q * float64(d.count.Load())))
	if want == 0 {
		return math.NaN()
	}
	for i := range d.buckets {
		if want -= d.buckets[i].Load(); want <= 0 {
			return math.Pow(delayStep, float64(i+1)) / 1e6
		}
	}
	return math.Inf(1)
}
