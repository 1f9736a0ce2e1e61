package jobindex_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// observed records the statuses since the last Reset.
type observed struct {
	mu   sync.Mutex
	seen map[string]string // last status by id
}

func (o *observed) Observe(s joblog.Summary) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		o.seen = map[string]string{}
	}
	o.seen[s.Name.ID] = s.Status
}

func (o *observed) Reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen = nil
}

func (o *observed) has(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen[id] != ""
}

// auto returns a replica in mode Auto.
func auto(t testing.TB, b *broker.Broker, change ...func(*setup)) *replica {
	t.Helper()
	return newReplica(t, b, append([]func(*setup){func(o *setup) { o.Broker, o.Mode = b, jobindex.Auto }}, change...)...)
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), brokertest.Patience)
	defer cancel()
	for !holds() {
		if broker.Wait(ctx, 10*time.Millisecond) != nil {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// keep counts the replicas that have the index ready.
func keep(replicas ...*replica) (n int) {
	for _, r := range replicas {
		if r.Ready() {
			n++
		}
	}
	return n
}

// threeReplicas returns three replicas, two of which keep the index. asks is the third one.
func threeReplicas(t testing.TB) (all []*replica, asks *replica) {
	t.Helper()
	b := brokertest.Alone(t)
	for range 3 {
		all = append(all, auto(t, brokertest.Open(t, options(b.ClientURL()))))
	}
	eventually(t, "two keep the index", func() bool { return keep(all...) == 2 })
	for _, r := range all {
		if !r.Ready() {
			asks = r
		}
	}
	return all, asks
}

// list returns the ids that a replica lists, newest first.
func list(t testing.TB, r *replica) (ids []string) {
	t.Helper()
	page := must[jobindex.Page](t)(r.List(t.Context(), jobtable.Query{Kind: subject.Video, Tenant: "acme", Size: 100}))
	for _, e := range page.Jobs {
		ids = append(ids, e.Job.GetId())
	}
	return ids
}

// TestTwoReplicasKeepTheIndexForAll checks that each replica lists and counts its jobs at once and
// other replicas' jobs soon, and that only keepers receive events.
func TestTwoReplicasKeepTheIndexForAll(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		var all []*replica
		var told []*observed
		for range 5 {
			o := &observed{}
			told = append(told, o)
			all = append(all, auto(t, open(t), func(x *setup) { x.observer = o }))
		}
		eventually(t, "two replicas keep the index", func() bool { return keep(all...) == 2 })
		for i := range 20 {
			r := all[i%len(all)]
			id := fmt.Sprintf("video_%02d", i)
			e := submit(t, r, id)
			if ids := list(t, r); !slices.Contains(ids, id) {
				t.Errorf("the replica that made %s lists %v", id, ids)
			}
			if i%2 == 0 {
				cancelled(t, r, e)
			}
			// Jobs of other replicas arrive a moment later.
			eventually(t, "all unfinished jobs count", func() bool { return unfinished(t, r, "acme") == (i+1)/2 })
		}
		for i, r := range all {
			eventually(t, "all list all", func() bool { return len(list(t, r)) == 20 })
			counted(t, r, "globex", 0)
			page := must[jobindex.Page](t)(r.List(t.Context(), jobtable.Query{Kind: subject.Video, Tenant: "globex"}))
			if len(page.Jobs) != 0 {
				t.Errorf("replica %d lists %d jobs of another tenant", i, len(page.Jobs))
			}
			if knows := told[i].has("video_00"); knows != r.Ready() {
				t.Errorf("replica %d keeps the index: %t, and its observer receives events: %t", i, r.Ready(), knows)
			}
		}
		if n := keep(all...); n != 2 {
			t.Errorf("%d replicas keep the index", n)
		}
	})
}

// TestListsGoOnWhereAKeeperDies checks that the other keeper answers and a third replica takes
// over.
func TestListsGoOnWhereAKeeperDies(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		var all []*replica
		for range 4 {
			all = append(all, auto(t, open(t)))
		}
		eventually(t, "two replicas keep the index", func() bool { return keep(all...) == 2 })
		submit(t, all[0], "video_00")
		for _, r := range all {
			eventually(t, "all list the job", func() bool { return len(list(t, r)) == 1 })
		}
		for _, r := range all {
			if r.Ready() {
				r.kill()
				break
			}
		}
		var alive []*replica
		for _, r := range all {
			if !r.killed {
				alive = append(alive, r)
			}
		}
		begin := time.Now()
		for i := 0; keep(alive...) < 2; i++ {
			if ids := list(t, alive[i%3]); len(ids) != 1 {
				t.Fatalf("%s after a keeper died, %v are listed", time.Since(begin), ids)
			}
			counted(t, alive[i%3], "acme", 1)
			if time.Since(begin) > brokertest.Patience {
				t.Fatal("no other replica keeps the index")
			}
			_ = broker.Wait(t.Context(), time.Millisecond)
		}
	})
}

// TestAKeeperThatStopsIsFollowed checks that a stopping keeper is asked until its end and that
// others take over.
func TestAKeeperThatStopsIsFollowed(t *testing.T) {
	t.Parallel()
	b := brokertest.Alone(t)
	open := func() *broker.Broker { return brokertest.Open(t, options(b.ClientURL())) }
	first := auto(t, open())
	eventually(t, "one keeps the index", first.Ready)
	off := newReplica(t, open(), func(o *setup) { o.Broker, o.Mode = first.broker, jobindex.Off })
	submit(t, off, "video_00")
	first.HandOver()
	for begin := time.Now(); time.Since(begin) < 4*time.Second; { // longer than a claim lasts
		if ids := list(t, off); len(ids) != 1 || off.Ready() {
			t.Fatalf("while the only one that keeps the index stops, %v are listed", ids)
		}
		_ = broker.Wait(t.Context(), time.Millisecond)
	}
	second, third := auto(t, open()), auto(t, open())
	eventually(t, "two others keep the index", func() bool { return keep(second, third) == 2 })
	if !first.Ready() {
		t.Error("the one that stops has given the index up before its end")
	}
	first.kill()
	if ids := list(t, off); len(ids) != 1 {
		t.Errorf("after its end, %v are listed", ids)
	}
}

// TestAKeeperThatCannotKeepDeadlinesHandsOver checks that an unable keeper makes way for able
// replicas only.
func TestAKeeperThatCannotKeepDeadlinesHandsOver(t *testing.T) {
	t.Parallel()
	b := brokertest.Alone(t)
	open := func() *broker.Broker { return brokertest.Open(t, options(b.ClientURL())) }
	wrong := func(o *setup) { o.Able = func() error { return errors.New("the clock is wrong") } }
	var unable []*replica
	for range 4 {
		unable = append(unable, auto(t, open(), wrong))
	}
	eventually(t, "two keep the index", func() bool { return keep(unable...) == 2 })
	var kept []*replica
	for _, r := range unable {
		if r.Ready() {
			kept = append(kept, r)
		}
	}
	for begin := time.Now(); time.Since(begin) < 5*time.Second; { // a claim lasts three seconds
		for _, r := range unable {
			counted(t, r, "acme", 0)
			if keep(kept...) != 2 || keep(unable...) != 2 {
				t.Fatalf("%d of %d replicas keep the index that kept it before", keep(kept...), keep(unable...))
			}
		}
		_ = broker.Wait(t.Context(), time.Millisecond)
	}
	three := auto(t, open())
	eventually(t, "one of two keeps it that can", func() bool { return three.Ready() && keep(unable...) == 1 })
	four := auto(t, open())
	eventually(t, "those keep it that can", func() bool { return keep(three, four) == 2 && keep(unable...) == 0 })
	for _, r := range unable {
		eventually(t, "the others answer", func() bool { return unfinished(t, r, "acme") == 0 })
	}
}

// TestAMessageThatIsNoEvent checks that a replica becomes ready although the log ends with a
// message that is not an event.
func TestAMessageThatIsNoEvent(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	for i, subj := range []string{b.Names().Task(subject.Video, "acme", "video_none"), b.Names().Done(subject.Video, "acme", "completed", "video_none")} {
		if _, err := b.JetStream().Publish(t.Context(), subj, []byte("no event")); err != nil {
			t.Fatal(err)
		}
		r := newReplica(t, b)
		submit(t, r, fmt.Sprint("video_", i))
		if n := len(list(t, r)); n == 0 {
			t.Error("nothing is listed")
		}
		if _, err := b.JetStream().Publish(t.Context(), subj, []byte("no event either")); err != nil {
			t.Fatal(err)
		}
		eventually(t, "another one is ready", newReplica(t, b).Ready)
	}
}

// TestAKeeperThatDoesNotAnswerIsAskedLast checks that a silent replica that claims the index delays
// few lists.
func TestAKeeperThatDoesNotAnswerIsAskedLast(t *testing.T) {
	t.Parallel()
	b := brokertest.Alone(t)
	open := func() *broker.Broker { return brokertest.Open(t, options(b.ClientURL())) }
	const silentID = "0" // sorts before the other replicas
	conn := open()
	gone := map[string]*fleet.Lease{"0": fleet.NewLease(silentID)}
	gone["0"].Take(time.Now(), true)
	claims := fleet.NewClaims(fleet.ClaimsOptions{
		Conn: conn.Conn(), Subject: conn.Names().IndexKeepers(), Self: silentID, Changed: func(string) {},
		All: func() map[string]*fleet.Lease { return gone }, Lease: func(key string) *fleet.Lease { return gone[key] },
	})
	ctx, cancel := context.WithCancel(t.Context())
	var saying sync.WaitGroup
	saying.Go(func() { claims.Run(ctx, brokertest.Logger(t)) })
	saying.Go(func() {
		for broker.Wait(ctx, time.Second) == nil {
			gone["0"].Report(time.Now(), true, false)
		}
	})
	defer saying.Wait()
	defer cancel()
	silent, err := conn.Conn().SubscribeSync(conn.Names().Index(silentID))
	if err != nil {
		t.Fatal(err)
	}
	keeper := auto(t, open())
	eventually(t, "one keeps the index", keeper.Ready)
	asks := auto(t, open())
	submit(t, asks, "video_00")
	before, _, err := silent.Pending()
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the silent one is asked, after some seconds in which it was not", func() bool {
		if counted(t, asks, "acme", 1); asks.Ready() {
			t.Fatal("the replica that asks keeps the index")
		}
		asked, _, err := silent.Pending()
		return err == nil && asked > before
	})
	// A list that asks the silent replica takes hedgeAfter.
	const hedgeAfter = 300 * time.Millisecond
	eventually(t, "many lists in turn do not wait for the silent one", func() bool {
		before, _, _ := silent.Pending()
		turn := time.Now()
		for range 20 {
			begin := time.Now()
			if ids := list(t, asks); len(ids) != 1 {
				t.Fatalf("listed: %v", ids)
			}
			if time.Since(begin) >= hedgeAfter {
				return false
			}
		}
		if asked, _, err := silent.Pending(); err != nil || asked > before+2+int(time.Since(turn)/(4*time.Second)) {
			t.Errorf("the silent one was asked %d times for 20 lists, %v", asked-before, err)
		}
		return true
	})
}

// TestOwnEventsOfALostLogAreNotWaitedFor checks that counts recover after the log was recreated and
// its sequences start at 1 again.
func TestOwnEventsOfALostLogAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	_, asks := threeReplicas(t)
	for i := range 100 {
		submit(t, asks, fmt.Sprintf("video_old_%02d", i))
	}
	if err := asks.broker.JetStream().DeleteStream(t.Context(), asks.broker.Names().Tasks()); err != nil {
		t.Fatal(err)
	}
	if err := asks.broker.Streams().CreateMissing(t.Context()); err != nil {
		t.Fatal(err)
	}
	n := 0
	eventually(t, "jobs are counted while others are made", func() bool { // for ownFor and longer
		submit(t, asks, fmt.Sprintf("video_new_%02d", n))
		n++
		_ = broker.Wait(t.Context(), 300*time.Millisecond)
		return unfinished(t, asks, "acme") == n
	})
	if n > 60 {
		t.Errorf("it took %d jobs", n)
	}
}

// TestOnAndOff checks that On keeps the index in addition to two keepers and that Off does not
// while one exists.
func TestOnAndOff(t *testing.T) {
	t.Parallel()
	b := brokertest.Alone(t)
	mode := func(m jobindex.Mode) *replica {
		b := brokertest.Open(t, options(b.ClientURL()))
		return newReplica(t, b, func(o *setup) { o.Broker, o.Mode = b, m })
	}
	one, two := mode(jobindex.Auto), mode(jobindex.Auto)
	eventually(t, "two keep the index", func() bool { return keep(one, two) == 2 })
	on, off := mode(jobindex.On), mode(jobindex.Off)
	eventually(t, "so does one that is on", func() bool { return keep(one, two, on) == 3 })
	submit(t, off, "video_00")
	if ids := list(t, off); off.Ready() || len(ids) != 1 {
		t.Errorf("one that is off keeps the index: %t, and lists %v", off.Ready(), ids)
	}
	one.kill()
	eventually(t, "on takes over", func() bool { _, known := off.Unfinished(t.Context(), "acme"); return known && keep(two, on) == 2 })
}

// TestWithoutAKeeperNothingIsListed checks that lists fail with ErrCatchingUp and counts are
// unknown without a keeper, and that the end of the caller's context is reported as such.
func TestWithoutAKeeperNothingIsListed(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := unready(t, b, func(o *setup) { o.Broker, o.Mode = b, jobindex.Off })
	q := jobtable.Query{Kind: subject.Video, Tenant: "acme"}
	begin := time.Now()
	if _, err := r.List(t.Context(), q); !errors.Is(err, jobindex.ErrCatchingUp) {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took < time.Second || took > 20*time.Second { // shorter than the 30 s after which a replica in mode Off takes over
		t.Errorf("it took %s", took)
	}
	if n, known := r.Unfinished(t.Context(), "acme"); known {
		t.Errorf("%d jobs are known", n)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the caller is gone")
	cancel(gone)
	if _, err := r.List(ctx, q); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
}

// TestALogThatIsCreatedAgainIsReadAgain checks that all keepers read a recreated log and list and
// count only its jobs.
func TestALogThatIsCreatedAgainIsReadAgain(t *testing.T) {
	t.Parallel()
	all, _ := threeReplicas(t)
	for i := range 30 {
		submit(t, all[i%3], fmt.Sprintf("video_%02d", i))
	}
	one := all[0].broker
	if err := one.JetStream().DeleteStream(t.Context(), one.Names().Tasks()); err != nil {
		t.Fatal(err)
	}
	if err := one.Streams().CreateMissing(t.Context()); err != nil {
		t.Fatal(err)
	}
	submit(t, all[0], "video_new")
	for _, r := range all {
		eventually(t, "one job is listed and counts", func() bool {
			page, err := r.List(t.Context(), jobtable.Query{Kind: subject.Video, Tenant: "acme"})
			return err == nil && len(page.Jobs) == 1 && unfinished(t, r, "acme") == 1
		})
	}
}

// TestKeepersRemoveErasedJobs checks that a list on any replica makes the keepers remove erased
// jobs.
func TestKeepersRemoveErasedJobs(t *testing.T) {
	t.Parallel()
	all, asks := threeReplicas(t)
	for i := range 5 {
		submit(t, asks, fmt.Sprintf("video_%02d", i))
	}
	erase(t, asks, "video_01", "video_03")
	if diff := fmt.Sprint(list(t, asks)); diff != "[video_04 video_02 video_00]" {
		t.Errorf("listed: %s", diff)
	}
	for _, r := range all {
		eventually(t, "the erased jobs do not count", func() bool { return len(list(t, r)) == 3 && unfinished(t, r, "acme") == 3 })
	}
	page := must[jobindex.Page](t)(asks.List(t.Context(), jobtable.Query{Kind: subject.Video, Tenant: "acme", After: "video_02"}))
	if len(page.Jobs) != 1 || page.Jobs[0].Job.GetId() != "video_00" {
		t.Errorf("after a job: %v", page.Jobs)
	}
	if _, err := asks.List(t.Context(), jobtable.Query{Kind: subject.Video, Tenant: "acme", After: "video_none"}); !errors.Is(err, joblog.ErrNotFound) {
		t.Errorf("after an unknown job: %v", err)
	}
}

// TestAnyReplicaSearches checks that a replica without the index searches through a keeper, and
// that no replica finds an erased job.
func TestAnyReplicaSearches(t *testing.T) {
	t.Parallel()
	all, asks := threeReplicas(t)
	search := func(r *replica, s jobtable.Search) (ids []string) {
		found := must[jobtable.Found](t)(r.Search(t.Context(), s))
		for _, j := range found.Jobs {
			ids = append(ids, j.ID)
		}
		return ids
	}
	one := submit(t, asks, "video_1")
	two := cancelled(t, asks, submit(t, asks, "video_2"))
	for _, r := range all {
		eventually(t, "both are found", func() bool {
			return slices.Equal(search(r, jobtable.Search{Filter: jobtable.Filter{Route: "r", Model: "m"}}), []string{"video_2", "video_1"})
		})
		eventually(t, "one is found by its code", func() bool {
			return slices.Equal(search(r, jobtable.Search{Filter: jobtable.Filter{ErrorCode: "cancelled"}}), []string{"video_2"})
		})
		first := must[jobtable.Found](t)(r.Search(t.Context(), jobtable.Search{Size: 1, Oldest: true}))
		if first.Total != 2 || first.NextToken == "" || first.AsOf == 0 || first.Jobs[0].Phase != "queued" || !first.Jobs[0].CreatedAt().Equal(one.Job.GetCreatedAt().AsTime()) {
			t.Errorf("%+v", first)
		}
		if ids := search(r, jobtable.Search{Size: 1, Oldest: true, Token: first.NextToken}); !slices.Equal(ids, []string{"video_2"}) {
			t.Errorf("the next page is %v", ids)
		}
		if _, err := r.Search(t.Context(), jobtable.Search{Token: first.NextToken}); !errors.Is(err, jobtable.ErrPageToken) {
			t.Errorf("the token of another search: %v", err)
		}
	}
	if err := asks.Erase(t.Context(), two); err != nil {
		t.Fatal(err)
	}
	asks.Index.Erased(two)
	for _, r := range all {
		eventually(t, "an erased job is not found", func() bool { return slices.Equal(search(r, jobtable.Search{}), []string{"video_1"}) })
	}
}

// TestReplacementsAreListedByEveryReplica checks that every replica learns of retries and erasures,
// and that it does not wait for keepers that are missing.
func TestReplacementsAreListedByEveryReplica(t *testing.T) {
	t.Parallel()
	all, asks := threeReplicas(t)
	began := submit(t, asks, "video_00")
	old := cancelled(t, asks, began)
	if ids := asks.ReplacedBy(t.Context(), old); ids != nil {
		t.Errorf("before a retry: %v", ids)
	}
	for i, r := range append([]*replica{asks}, all...) {
		item := work(fmt.Sprintf("video_%02d", i+1))
		item.RetryOf = "video_00"
		cancelled(t, r, must[joblog.Entry](t)(r.Commit(t.Context(), task.FromWork(item), 0)))
	}
	for _, r := range all {
		eventually(t, "all list all", func() bool {
			return slices.Equal(r.ReplacedBy(t.Context(), old), []string{"video_01", "video_02", "video_03", "video_04"})
		})
	}
	if ids := asks.ReplacedBy(t.Context(), began); ids != nil {
		t.Errorf("before its end: %v", ids)
	}
	erased := must[joblog.Entry](t)(asks.Get(t.Context(), videoName("video_02")))
	if err := asks.Erase(t.Context(), erased); err != nil {
		t.Fatal(err)
	}
	asks.Index.Erased(erased)
	for _, r := range all {
		eventually(t, "none lists an erased job", func() bool { return len(r.ReplacedBy(t.Context(), old)) == 3 })
	}
	for _, r := range all {
		if r != asks {
			r.kill()
		}
	}
	begin := time.Now()
	if ids := asks.ReplacedBy(t.Context(), old); ids != nil || time.Since(begin) > 5*time.Second {
		t.Errorf("without keepers: %v after %s", ids, time.Since(begin))
	}
}
