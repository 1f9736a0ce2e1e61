package task

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestStartBy(t *testing.T) {
	t.Parallel()
	soon, later := timestamppb.New(start.Add(time.Minute)), timestamppb.New(start.Add(time.Hour))
	for name, c := range map[string]struct {
		expires, queue, want *timestamppb.Timestamp
	}{
		"no limit":         {},
		"the caller's":     {expires: soon, want: soon},
		"the queue's":      {queue: later, want: later},
		"the caller first": {expires: soon, queue: later, want: soon},
		"the queue first":  {expires: later, queue: soon, want: soon},
	} {
		for _, kind := range []string{"video", "chat"} {
			item := work(kind)
			item.ExpiresAt, item.QueueDeadline = c.expires, c.queue
			by, limited := StartBy(FromWork(item).Job)
			if limited != (c.want != nil) || limited && !by.Equal(c.want.AsTime()) {
				t.Errorf("%s, %s: %s, %t", name, kind, by, limited)
			}
		}
	}
}

// TestStartByOfAJobThatBegan checks that a started job has no StartBy, even if it is queued again
// after a refusal.
func TestStartByOfAJobThatBegan(t *testing.T) {
	t.Parallel()
	item := work("video")
	item.ExpiresAt = timestamppb.New(start.Add(time.Minute))
	v := newVideo(item, FromWork(item).Job.GetExecution())
	begun, err := Submitting(v, start, Submission{Upstream: "u", Until: start, Deadline: start})
	if err != nil {
		t.Fatal(err)
	}
	if by, limited := StartBy(begun.Job); limited {
		t.Errorf("a job that is submitted: %s", by)
	}
	x := begun.Job.GetExecution()
	x.Phase = queued
	if by, limited := StartBy(begun.Job); limited {
		t.Errorf("a job that was refused for now: %s", by)
	}
}

// TestEndBy checks that only started, unfinished jobs have an EndBy, and that archiving may extend
// it.
func TestEndBy(t *testing.T) {
	t.Parallel()
	v := newVideo(work("video"), FromWork(work("video")).Job.GetExecution())
	if by, limited := EndBy(v); limited {
		t.Errorf("a job that waits: %s", by)
	}
	deadline, copied := start.Add(time.Hour), start.Add(2*time.Hour)
	begun, err := Submitting(v, start, Submission{Upstream: "u", Until: start, Deadline: deadline})
	if err != nil {
		t.Fatal(err)
	}
	if by, limited := EndBy(begun.Job); !limited || !by.Equal(deadline) {
		t.Errorf("a job that is submitted: %s, %t", by, limited)
	}
	x := begun.Job.GetExecution()
	x.ArchiveUntil = timestamppb.New(copied)
	if by, limited := EndBy(begun.Job); !limited || !by.Equal(copied) {
		t.Errorf("a job whose result is copied: %s, %t", by, limited)
	}
	x.Phase = failed
	if by, limited := EndBy(begun.Job); limited {
		t.Errorf("a job that has ended: %s", by)
	}
}
