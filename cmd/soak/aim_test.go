package main

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

// sentAt returns messages of the service by the name of their moment. "later event" belongs to no
// moment.
func sentAt() map[string]*nats.Msg {
	names := subject.Default()
	message := func(subj string, header ...string) *nats.Msg {
		m := nats.NewMsg(subj)
		m.Data = []byte("data")
		for i := 0; i < len(header); i += 2 {
			m.Header[header[i]] = []string{header[i+1]}
		}
		return m
	}
	return map[string]*nats.Msg{
		"item":         message(names.WorkItem(subject.Video, modelFilm, "red", "video_a")),
		"waiting item": message(names.WaitItem(subject.Video, modelFilm, "red", "video_a")),
		"first event":  message(names.Task(subject.Video, "red", "video_a"), subject.HeaderVersion, "1"),
		"copy":         message(names.WorkItem(subject.Video, modelFilm, "red", "video_a"), subject.HeaderRecorded, "7"),
		"later event":  message(names.Task(subject.Video, "red", "video_a"), subject.HeaderVersion, "12"),
	}
}

// TestMomentsAreTheirMessages proves that each moment matches its own message and no other, on a
// link and for a subscriber.
func TestMomentsAreTheirMessages(t *testing.T) {
	t.Parallel()
	url := brokertest.Alone(t).ClientURL()
	link, err := faultinject.NewLink(url[len("nats://"):])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = link.Close() })
	nc, err := nats.Connect("nats://" + link.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	ways := map[string]*replica{"link": {links: []*faultinject.Link{link}}, "subscriber": {}}
	for way, r := range ways {
		s := &storm{fleet: &fleet{nats: url}}
		for _, m := range moments {
			for what, msg := range sentAt() {
				if got := seen(t, s, r, m, nc, msg); got != (what == m.name) {
					t.Errorf("%s: the %s is the moment %q: %t", way, what, m.name, got)
				}
			}
		}
	}
}

// seen reports whether a message triggers a moment.
func seen(t *testing.T, s *storm, r *replica, m moment, nc *nats.Conn, msg *nats.Msg) bool {
	t.Helper()
	a, err := s.arm(r, m)
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	for range 2 { // the first message of a connection has no newline before it
		if err := nc.PublishMsg(msg); err != nil {
			t.Fatal(err)
		}
	}
	if a.watch == nil { // at a moment, the link holds the answer to the flush
		return nc.FlushTimeout(300*time.Millisecond) != nil && a.await(t.Context())
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	// After the drain, every earlier message has been handled.
	closed := a.watch.nc.StatusChanged(nats.CLOSED)
	if err := a.watch.nc.Drain(); err != nil {
		t.Fatal(err)
	}
	<-closed
	return len(a.seen) == 1
}

// TestWhatADeletionLoses proves that only streams of work items are expected to lose jobs.
func TestWhatADeletionLoses(t *testing.T) {
	t.Parallel()
	names := subject.Default()
	want := map[string]check.Loss{names.Requests(): check.LosesRequests, names.Work(): check.LosesItems, names.Wait(): check.LosesItems, names.Chunks(): ""}
	for _, d := range streams {
		loss, known := want[d.stream]
		if f := d.fault(); !known || f.Loses != loss || d.holdsJobs() != (loss == check.LosesItems) || f.Wipes != (d.stream == names.Chunks()) {
			t.Errorf("%s: %+v", d, f)
		}
		delete(want, d.stream)
	}
	if len(want) > 0 {
		t.Errorf("not deleted: %v", want)
	}
	for _, d := range durables {
		if d.holdsJobs() {
			t.Errorf("%s holds jobs", d)
		}
	}
}
