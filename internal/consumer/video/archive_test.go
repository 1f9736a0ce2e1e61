package video

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/consumer/jobtest"
	"github.com/genbus/genbus/internal/upstream"
)

// TestFailingCopyReportsEachReasonOnce proves that a failed copy causes an event only for a new
// reason.
func TestFailingCopyReportsEachReasonOnce(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	files := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(files.Close)
	p := newProcess(t, brokertest.Single(t), files.URL)
	item := jobtest.PastItem("v")
	item.Archive = proto.Bool(true)
	jobtest.PastOf(t, p.Log, item, jobtest.CompletedUpstream(time.Hour)...)
	j := p.held(t, item)
	// The attempts follow each other without the minutes between them.
	var got []string
	for _, s := range []int64{503, 503, 503, 410, 410, 503} {
		status.Store(s)
		before := j.held.Entry().Version()
		out := j.archiving.complete(t.Context(), upstream.VideoState{Progression: upstream.Completed, Videos: []upstream.VideoFile{{URL: files.URL + "/file/x"}}})
		if !hold.Waits(out) {
			t.Fatalf("after %d: %v, %v", s, out, j.held.Entry().Job)
		}
		for range j.held.Entry().Version() - before {
			got = append(got, j.task.video().GetArchive().GetError().GetCode())
		}
	}
	if want := []string{"content_unavailable", "content_expired", "content_unavailable"}; !slices.Equal(got, want) {
		t.Errorf("events about %v, want %v", got, want)
	}
}

// TestANotificationDuringAStepInterruptsItsCopy proves that news during a step interrupts a copy
// that begins later in it, and not the copy of the next step.
func TestANotificationDuringAStepInterruptsItsCopy(t *testing.T) {
	t.Parallel()
	var i interrupter
	i.now()
	i.step()
	ctx, done := i.with(t.Context())
	if ctx.Err() != nil {
		t.Error("a copy is interrupted by what its step has read")
	}
	done()
	i.now()
	ctx, done = i.with(t.Context())
	defer done()
	if !errors.Is(context.Cause(ctx), errInterrupted) {
		t.Errorf("a copy goes on: %v", context.Cause(ctx))
	}
}
