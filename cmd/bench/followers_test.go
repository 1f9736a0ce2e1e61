package main

import (
	"fmt"
	"math"
	"testing"
	"time"
)

func TestDelays(t *testing.T) {
	t.Parallel()
	d := &delays{}
	if q := d.quantile(0.5); !math.IsNaN(q) {
		t.Errorf("of nothing: %v", q)
	}
	for i := 1; i <= 100; i++ {
		d.observe(time.Duration(i) * time.Millisecond)
	}
	for q, want := range map[float64]float64{0.5: 0.05, 0.99: 0.099, 1: 0.1} {
		if got := d.quantile(q); got < want || got > want*delayStep*delayStep {
			t.Errorf("quantile %v: %v, want %v and a step at most", q, got, want)
		}
	}
	// Only blocks published after the part began and after the follower joined count.
	now := time.Now().UnixNano()
	block := func(sent int64) []byte { return fmt.Appendf(nil, `%s%0*d,"pad":""}`, blockHead, sentDigits, sent) }
	d = &delays{}
	d.add(block(now), now-1)
	d.from.Store(now - 10)
	for _, row := range [][2]int64{{now, now - 1}, {now - 20, now - 30}, {now, now + 1}} {
		d.add(block(row[0]), row[1])
	}
	d.add([]byte("rubbish"), 0)
	if n := d.count.Load(); n != 1 {
		t.Errorf("%d are counted", n)
	}
}

func TestFollowersFlags(t *testing.T) {
	t.Parallel()
	good := followersCommand{Chats: 10, PerChat: 1, Rate: 1, Hold: time.Second}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*followersCommand){
		"chats":    func(c *followersCommand) { c.Chats = 0 },
		"per chat": func(c *followersCommand) { c.PerChat = 0 },
		"rate":     func(c *followersCommand) { c.Rate = 0 },
		"late":     func(c *followersCommand) { c.Late = -1 },
		"videos":   func(c *followersCommand) { c.Videos = -1 },
		"hold":     func(c *followersCommand) { c.Hold = 0 },
	} {
		bad := good
		change(&bad)
		if bad.Validate() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestFollowersEnd proves that the run ends after its last part and does not wait for its time
// limit.
func TestFollowersEnd(t *testing.T) {
	t.Parallel()
	c := followersCommand{Chats: 1, PerChat: 2, Rate: 50, Hold: time.Second, Timeout: 5 * time.Minute}
	begin := time.Now()
	if err := c.Run(t.Context()); err != nil || time.Since(begin) >= c.Timeout {
		t.Errorf("it took %v: %v", time.Since(begin), err)
	}
}
