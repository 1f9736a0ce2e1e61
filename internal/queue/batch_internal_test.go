package queue

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// queued puts a video into the backlog and its first event into the log.
func queued(t *testing.T, q *Queue, tenant, id string) (turn, joblog.Entry) {
	t.Helper()
	reserved, err := q.Reserve(&genbusv1.WorkItem{
		Id: subject.JobID(subject.Video, tenant, id), Kind: "video", Tenant: tenant, Route: config.SandboxVideoRoute, Model: "m",
		Body: []byte("{}"), Fingerprint: []byte("fp"), AcceptedAt: timestamppb.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	item, err := reserved.Put(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := q.log.Commit(t.Context(), task.FromWork(item.WorkItem), 0)
	if err != nil {
		t.Fatal(err)
	}
	return turn{tenant: tenant, seq: item.Seq}, e
}

func jobDispatcherOf(q *Queue) jobDispatcher {
	return jobDispatcher{q: q, route: q.Route(subject.Video, config.SandboxVideoRoute)}
}

// readAll retries until everything is found, because a replica that lags may answer.
func readAll(t *testing.T, m jobDispatcher, batch []turn) (found []candidate) {
	t.Helper()
	for begin := time.Now(); ; {
		found = m.read(t.Context(), batch)
		missing := func(j candidate) bool { return j.item.Seq != j.seq || j.job.Job == nil }
		if !slices.ContainsFunc(found, missing) {
			return found
		}
		if err := broker.Wait(t.Context(), 10*time.Millisecond); err != nil || time.Since(begin) > brokertest.Patience {
			t.Fatalf("read: %+v", found)
		}
	}
}

// TestABatchIsReadTogether proves that a batch read returns each job's own item and log, in order.
func TestABatchIsReadTogether(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		q, _ := idle(t, open(t))
		var batch []turn
		var ids []string
		for i := range 12 {
			tenant := []string{"acme", "b", "acme", "c"}[i%4]
			next, e := queued(t, q, tenant, fmt.Sprint(i))
			if i == 5 { // dispatched or cancelled since it was indexed
				if _, err := q.Items.Remove(t.Context(), Item{Stream: q.b.Names().Wait(), Stored: broker.Stored{Seq: next.seq}}); err != nil {
					t.Fatal(err)
				}
				continue
			}
			batch, ids = append(batch, next), append(ids, e.Job.GetId())
		}
		for i, j := range readAll(t, jobDispatcherOf(q), batch) {
			n, err := q.Items.NameOf(j.item)
			if err != nil || n.ID != ids[i] || j.job.Job.GetId() != ids[i] || n.Tenant != batch[i].tenant {
				t.Errorf("%d: %+v, %v, %v", i, n, j.job.Job, err)
			}
		}
	})
}

// TestWhatWasReadInABatchIsOld proves that dispatch handles a job that changed after its batch was
// read.
func TestWhatWasReadInABatchIsOld(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		q, _ := idle(t, open(t))
		m := jobDispatcherOf(q)
		remove := func(j candidate) error {
			_, err := q.Items.Remove(t.Context(), j.item)
			return err
		}
		end := func(j candidate) (joblog.Entry, error) {
			next, err := task.Cancelled(j.job.Job, time.Now(), errcode.New(errcode.Cancelled, "cancelled").TaskError())
			if err != nil {
				return joblog.Entry{}, err
			}
			e, err := q.log.Commit(t.Context(), next, j.job.Seq)
			return e, errors.Join(err, q.log.Finish(t.Context(), e))
		}
		for name, test := range map[string]struct {
			during func(j candidate) error
			want   verdict
			places []string // streams with items of the job afterwards
			marked bool
		}{
			"nothing": {func(candidate) error { return nil }, enqueued, []string{q.b.Names().Work()}, true},
			"cancelled": {func(j candidate) error {
				e, err := end(j)
				return errors.Join(err, q.RemoveEnded(t.Context(), e))
			}, enqueued, nil, false},
			"erased": {func(j candidate) error {
				e, err := end(j)
				return errors.Join(err, remove(j), q.log.Erase(t.Context(), e))
			}, enqueued, []string{q.b.Names().Work()}, true},
			"dispatched": {func(j candidate) error {
				_, err := m.dispatch(t.Context(), candidate{turn: j.turn})
				return err
			}, obsolete, []string{q.b.Names().Work()}, true},
		} {
			next, _ := queued(t, q, "acme", name)
			second, _ := queued(t, q, "acme", name+" and another")
			j := readAll(t, m, []turn{next, second})[0]
			if err := test.during(j); err != nil {
				t.Fatal(name, err)
			}
			if v, err := m.dispatch(t.Context(), j); err != nil || v != test.want {
				t.Errorf("%s: %v, %v", name, v, err)
			}
			items, err := q.Items.All(t.Context(), j.job.Name())
			var places []string
			for _, i := range items {
				places = append(places, i.Stream)
				if (i.Header.Get(subject.HeaderRecorded) == fmt.Sprint(j.job.Seq)) != test.marked {
					t.Errorf("%s: marked %q", name, i.Header.Get(subject.HeaderRecorded))
				}
			}
			if err != nil || !slices.Equal(places, test.places) {
				t.Errorf("%s: items in %v, %v", name, places, err)
			}
		}
	})
}
