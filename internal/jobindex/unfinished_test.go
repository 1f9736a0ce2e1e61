package jobindex_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/task"
)

// unfinished returns the number of unfinished jobs that a replica counts for a tenant, or -1 if it
// does not know.
func unfinished(t testing.TB, r *replica, tenant string) int {
	t.Helper()
	if n, known := r.Unfinished(t.Context(), tenant); known {
		return n
	}
	return -1
}

// counted fails unless a replica counts n unfinished jobs of a tenant. It asks again while the
// count is unknown, because a keeper may answer too late.
func counted(t testing.TB, r *replica, tenant string, n int) {
	t.Helper()
	eventually(t, "a count is known", func() bool {
		got, known := r.Unfinished(t.Context(), tenant)
		if known && got != n {
			t.Fatalf("%d unfinished jobs of %s are counted, want %d", got, tenant, n)
		}
		return known
	})
}

// counts waits until every replica counts n unfinished jobs of acme.
func counts(t testing.TB, n int, logs ...*replica) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for i, l := range logs {
		for unfinished(t, l, "acme") != n {
			if broker.Wait(ctx, 5*time.Millisecond) != nil {
				t.Fatalf("log %d counts %d unfinished jobs, want %d", i, unfinished(t, l, "acme"), n)
			}
		}
	}
}

// TestUnfinishedOverReplicas checks that a replica counts its jobs at once, the others soon and a
// later one too, and that inline chats do not count.
func TestUnfinishedOverReplicas(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		a, b := newReplica(t, open(t)), newReplica(t, open(t))
		first := submit(t, a, "video_1")
		must[joblog.Entry](t)(a.Commit(t.Context(), task.FromWork(work("video_2")), 0))
		if n := unfinished(t, a, "acme"); n != 2 {
			t.Errorf("whoever made 2 jobs counts %d", n)
		}
		chat := work("chat_1")
		chat.Kind = "chat"
		must[joblog.Entry](t)(a.Commit(t.Context(), task.FromWork(chat), 0))
		inline := &genbusv1.WorkItem{Id: "chat_2", Kind: "chat", Tenant: "acme", Route: "r", Model: "m", AcceptedAt: timestamppb.Now()}
		must[joblog.Entry](t)(a.Commit(t.Context(), task.Inline(inline, task.Attempt{Upstream: "u", Deadline: time.Now().Add(time.Hour)}), 0))
		counts(t, 3, a, b)
		if n := unfinished(t, a, "globex"); n != 0 {
			t.Errorf("another tenant has %d", n)
		}
		cancelled(t, b, first)
		c := newReplica(t, open(t))
		counts(t, 2, a, b, c)
	})
}

// TestJobsOfALostLogDoNotCount checks that a running replica drops the jobs of a recreated log and
// counts the new ones.
func TestJobsOfALostLogDoNotCount(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := newReplica(t, b)
	for i := range 3 {
		submit(t, l, fmt.Sprintf("video_%d", i))
	}
	counts(t, 3, l)
	if err := b.JetStream().DeleteStream(t.Context(), b.Names().Tasks()); err != nil {
		t.Fatal(err)
	}
	if err := b.Streams().CreateMissing(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for unfinished(t, l, "acme") != 0 {
		if broker.Wait(ctx, 5*time.Millisecond) != nil {
			t.Fatalf("%d jobs count that the log does not have", unfinished(t, l, "acme"))
		}
	}
	other := newReplica(t, b)
	submit(t, other, "video_new")
	counts(t, 1, l, other)
}
