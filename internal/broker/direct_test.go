package broker_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

func put(t testing.TB, b *broker.Broker, m *nats.Msg) uint64 {
	t.Helper()
	ack, err := b.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return ack.Seq
}

// TestPagesOfASubject proves that Page returns a subject's messages completely and in order right
// after their writes, even if a lagging replica answers.
func TestPagesOfASubject(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		stream, mine, other := b.Names().Chunks(), b.Names().Chunk("t", "mine"), b.Names().Chunk("t", "other")
		if got, err := b.Page(t.Context(), stream, mine, 1); err != nil || len(got) > 0 {
			t.Fatalf("of an empty stream: %d messages, %v", len(got), err)
		}
		var want []uint64
		check := func(from int) {
			t.Helper()
			var got []uint64
			for seq := want[from]; ; {
				page, err := b.Page(t.Context(), stream, mine, seq)
				if err != nil {
					t.Fatal(err)
				}
				if len(page) == 0 {
					break
				}
				for _, m := range page {
					if m.Subject != mine || !strings.HasPrefix(string(m.Data), "m") || m.Time.IsZero() {
						t.Fatalf("got %+v", m)
					}
					got = append(got, m.Seq)
					seq = m.Seq + 1
				}
			}
			if !slices.Equal(got, want[from:]) {
				t.Fatalf("from %d: got %v, want %v", want[from], got, want[from:])
			}
		}
		for i := range 40 {
			put(t, b, msg(other, "", "o"))
			want = append(want, put(t, b, msg(mine, "", "m"+strings.Repeat("x", 20_000))))
			check(max(0, i-1))
		}
		check(0) // several pages
	})
}

// TestBehind proves that Behind finds the subjects with news and those without messages.
func TestBehind(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		stream := b.Names().Tasks()
		var known []broker.Known
		for i := range 20 {
			subj := b.Names().Task(subject.Video, "t", fmt.Sprint("video_", i))
			known = append(known, broker.Known{Subject: subj, Seq: put(t, b, msg(subj, "", "x"))})
		}
		behind := func(missing bool) []int {
			t.Helper()
			s, err := b.Stream(t.Context(), stream)
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.Behind(t.Context(), s.CachedInfo(), known, missing)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		if got := behind(false); len(got) > 0 {
			t.Errorf("of nothing new: %v", got)
		}
		for i := range 30 { // right after each write
			k := &known[i%len(known)]
			seq := put(t, b, msg(k.Subject, "", "y"))
			if got := behind(i%2 == 0); !slices.Contains(got, i%len(known)) {
				t.Fatalf("%d is not found to be behind, but %v", i, got)
			}
			k.Seq = seq
		}
		s, err := b.JetStream().Stream(t.Context(), stream)
		if err == nil {
			err = s.DeleteMsg(t.Context(), known[7].Seq)
		}
		if err == nil {
			err = s.Purge(context.WithoutCancel(t.Context()))
		}
		if err != nil {
			t.Fatal(err)
		}
		// No sequence reveals a replica that lags behind a removal: it returns removed messages.
		ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
		defer cancel()
		for got := behind(true); len(got) != len(known); got = behind(true) {
			if err := broker.Wait(ctx, 5*time.Millisecond); err != nil {
				t.Fatalf("of %d that are gone: %v", len(known), got)
			}
		}
	})
}

// TestBehindOfNothing proves that subjects without messages cost few requests and are not reported.
func TestBehindOfNothing(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		stream, other := b.Names().Chunks(), b.Names().Chunk("t", "other")
		count := func(subj string) func() int {
			sub, err := b.Conn().SubscribeSync(subj + stream)
			if err != nil {
				t.Fatal(err)
			}
			return func() (n int) {
				if err := b.Conn().Flush(); err != nil {
					t.Fatal(err)
				}
				for _, err = sub.NextMsg(0); err == nil; _, err = sub.NextMsg(0) {
					n++
				}
				return n
			}
		}
		replicas, leader := count("$JS.API.DIRECT.GET."), count("$JS.API.STREAM.MSG.GET.")
		var known []broker.Known
		for i := range 20 {
			known = append(known, broker.Known{Subject: b.Names().Chunk("t", fmt.Sprint("chat_", i))})
		}
		none := func(what string) {
			t.Helper()
			var got []int
			for range 5 { // a replica may lag for longer than a check waits
				s, err := b.Stream(t.Context(), stream)
				if err != nil {
					t.Fatal(err)
				}
				if got, err = b.Behind(t.Context(), s.CachedInfo(), known, false); err != nil {
					t.Fatal(err)
				}
				if n, m := replicas(), leader(); n > 4 || m > 1 {
					t.Errorf("%s: %d reads of replicas, %d of the leader", what, n, m)
				}
				if len(got) == 0 {
					return
				}
			}
			t.Errorf("%s: %d are behind", what, len(got))
		}
		for range 3 {
			put(t, b, msg(other, "", "o"))
		}
		none("others have messages")
		s, err := b.JetStream().Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		last := put(t, b, msg(other, "", "o"))
		if err := s.DeleteMsg(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		none("the last message is gone")
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		none("all messages are gone")
	})
}

// TestManyAtOnce proves that Lasts and Some return only the requested messages, and all of them
// once the replica has caught up.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		b := open(t)
		stream := b.Names().Chunks()
		want := map[string]uint64{}
		var subjects []string
		for i := range 6 {
			subj := b.Names().Chunk("t", fmt.Sprint(i%3))
			want[subj] = put(t, b, &nats.Msg{Subject: subj, Data: []byte("m")})
			subjects = append(subjects, subj)
		}
		put(t, b, &nats.Msg{Subject: b.Names().Chunk("t", "other"), Data: []byte("m")})
		subjects = append(subjects[:3], b.Names().Chunk("t", "none"))
		for got := map[string]uint64{}; !maps.Equal(got, want); { // until the replica has caught up
			lasts, err := b.Lasts(t.Context(), stream, subjects)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range lasts {
				if got[m.Subject] = m.Seq; want[m.Subject] < m.Seq {
					t.Fatalf("%s has %d, want %d", m.Subject, m.Seq, want[m.Subject])
				}
			}
		}
		for seqs := []uint64(nil); len(seqs) < 2; {
			some, err := b.Some(t.Context(), stream, b.Names().Chunk("t", "*"), 3, 2)
			if err != nil {
				t.Fatal(err)
			}
			seqs = nil
			for _, m := range some {
				seqs = append(seqs, m.Seq)
			}
			if len(seqs) > 2 || len(seqs) == 2 && (seqs[0] != 3 || seqs[1] != 4) {
				t.Fatalf("two from 3: %v", seqs)
			}
		}
		if some, err := b.Some(t.Context(), b.Names().Work(), ">", 1, 2); err != nil || len(some) > 0 {
			t.Errorf("a stream without direct gets: %d, %v", len(some), err)
		}
	})
}
