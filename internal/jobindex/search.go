package jobindex

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

const (
	// searches bounds those at a time of one replica. searchPatience is how long one takes at
	// most, keeperPatience how long the answer of one other replica is waited for, and
	// turnPatience how long that has to begin.
	searches       = 2
	searchPatience = 5 * time.Second
	keeperPatience = 2 * time.Second
	turnPatience   = time.Second
	// scanRows is how many rows are looked at while the table is locked.
	scanRows = 4096
)

// Filter chooses jobs of all tenants. Empty fields choose all; the others must all fit.
type Filter struct {
	Kind   subject.Kind `json:"kind,omitempty"`
	Tenant string       `json:"tenant,omitempty"`
	// Status is a status word, or Unfinished. Phase is a phase word.
	Status string `json:"status,omitempty"`
	Phase  string `json:"phase,omitempty"`

	Route     string `json:"route,omitempty"`
	Model     string `json:"model,omitempty"`
	Upstream  string `json:"upstream,omitempty"`
	Key       string `json:"key,omitempty"` // the name of the upstream's key
	ErrorCode string `json:"error_code,omitempty"`
	// Labels are those that a job has, among others.
	Labels map[string]string `json:"labels,omitempty"`
	// IDs are job ids, or upstreams' ids of tasks: a job has one of them.
	IDs []string `json:"ids,omitempty"`
	// The From are inclusive and the Before exclusive, each of them a Bound.
	CreatedFrom   int64 `json:"created_from,omitempty"`
	CreatedBefore int64 `json:"created_before,omitempty"`
	UpdatedFrom   int64 `json:"updated_from,omitempty"`
	UpdatedBefore int64 `json:"updated_before,omitempty"`
}

// Unfinished is the Status of a Filter for the jobs that have not ended.
const Unfinished = "unfinished"

// Search is a Filter and the page of it that is wanted.
type Search struct {
	Filter
	// Oldest has the oldest jobs first, by when they were made; else the newest are.
	Oldest bool `json:"oldest,omitempty"`
	// Size is 1 to MaxPage; 0 is DefaultPage, more is MaxPage.
	Size int `json:"size"`
	// Token is the NextToken of the page before, or empty.
	Token string `json:"-"`
	After place  `json:"after,omitzero"`
	// ByTenant has the jobs that match counted by tenant, in place of a page of them: Size is
	// then the number of tenants, those with the most unfinished jobs first.
	ByTenant bool `json:"by_tenant,omitempty"`
}

// lately is the time of which a TenantJobs counts what began and ended.
const lately = time.Hour

// TenantJobs are the jobs of a tenant, as far as the index lists them.
type TenantJobs struct {
	Tenant string `json:"tenant"`
	// Unfinished are those that have not ended, and Waiting those of them that are queued.
	// Oldest is when the first of the unfinished was made, Unix nanoseconds; 0 where there is none.
	Unfinished int   `json:"unfinished,omitempty"`
	Waiting    int   `json:"waiting,omitempty"`
	Oldest     int64 `json:"oldest,omitempty"`
	// Accepted began within the last hour; Ended ended in it, and Failed are those of them that
	// failed.
	Accepted int `json:"accepted,omitempty"`
	Ended    int `json:"ended,omitempty"`
	Failed   int `json:"failed,omitempty"`
}

// place is where a page begins: after this job.
type place struct {
	Created int64        `json:"created"`
	Kind    subject.Kind `json:"kind"`
	Tenant  string       `json:"tenant"`
	ID      string       `json:"id"`
}

func (p place) compare(q place) int {
	if c := cmp.Compare(p.Created, q.Created); c != 0 { // nearly always
		return c
	}
	return cmp.Or(cmp.Compare(p.Kind, q.Kind), strings.Compare(p.Tenant, q.Tenant), strings.Compare(p.ID, q.ID))
}

// FoundJob is what the index knows of a job.
type FoundJob struct {
	place
	Status  string `json:"status"`
	Updated int64  `json:"updated"` // when its latest event happened, Unix nanoseconds

	Phase        string           `json:"phase,omitempty"`
	Route        string           `json:"route,omitempty"`
	Model        string           `json:"model,omitempty"`
	Upstream     string           `json:"upstream,omitempty"`
	Key          string           `json:"key,omitempty"`
	ErrorCode    string           `json:"error_code,omitempty"`
	UpstreamTask string           `json:"task,omitempty"`
	Labels       publisher.Labels `json:"labels,omitempty"`
}

// CreatedAt is when the job was accepted.
func (f FoundJob) CreatedAt() time.Time { return time.Unix(0, f.Created) }

// UpdatedAt is when its latest event happened.
func (f FoundJob) UpdatedAt() time.Time { return time.Unix(0, f.Updated) }

// Found is a page of what was looked for.
type Found struct {
	Jobs []FoundJob `json:"jobs"`
	// Total is how many jobs match, on all pages. It is a least number where Maybe is not zero:
	// that many may match, as the index does not know all of their labels.
	Total int `json:"total"`
	Maybe int `json:"maybe,omitempty"`
	// Since is when the newest job was made that fell out of the index, Unix nanoseconds; 0 where
	// none did. Of those that were made later none is missing.
	Since int64 `json:"since,omitempty"`
	// AsOf is when the log had no more than is in this answer, Unix nanoseconds.
	AsOf int64 `json:"as_of"`
	// More is whether there is another page, and NextToken its token.
	More      bool   `json:"more,omitempty"`
	NextToken string `json:"-"`
	// Tenants is what ByTenant asks for. Total is then how many tenants there are.
	Tenants []TenantJobs `json:"tenants,omitempty"`
}

// ErrBusy says that the replicas that keep the index look for so much else.
var ErrBusy = errors.New("too many searches of the index of jobs at a time")

// Search looks for jobs of all tenants. The answer is the index's, which may be some seconds
// behind the log: AsOf says how far. An illegal token is ErrPageToken; while no replica has
// the index ready the error is ErrCatchingUp, and while they are busy ErrBusy.
func (x *Index) Search(ctx context.Context, s Search) (Found, error) {
	s.Size = pageSize(s.Size)
	if err := s.parseToken(); err != nil {
		return Found{}, err
	}
	found, err := x.search(ctx, s)
	if err == nil && found.More {
		found.NextToken = s.formatToken(found.Jobs[len(found.Jobs)-1].place)
	}
	return found, err
}

func (x *Index) search(ctx context.Context, s Search) (Found, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, searchPatience, broker.ErrNoAnswer)
	defer cancel()
	for {
		if r := x.ready(); r != nil {
			return r.search(ctx, s)
		}
		found, err := x.askToSearch(ctx, s)
		if !errors.Is(err, ErrCatchingUp) {
			return found, err
		}
		if broker.Wait(ctx, listAgain) != nil {
			return Found{}, ErrCatchingUp
		}
	}
}

// askToSearch asks one replica that has the index ready, and the next where it does not answer:
// never two at once, as an answer costs them more than that to any other question.
func (x *Index) askToSearch(ctx context.Context, s Search) (Found, error) {
	if x.role == nil {
		return Found{}, ErrCatchingUp
	}
	if err := x.role.b.Trouble(); err != nil {
		return Found{}, err
	}
	data, err := json.Marshal(question{Search: &s})
	if err != nil {
		return Found{}, err
	}
	err = ErrCatchingUp
	for _, replica := range x.role.peers.ready(time.Now()) {
		asking, cancel := context.WithTimeout(ctx, keeperPatience)
		a := x.role.peers.request(asking, replica, data)
		silent := asking.Err() != nil
		cancel()
		switch {
		case a.Error == "" && a.Found != nil:
			return *a.Found, nil
		case ctx.Err() != nil:
			return Found{}, context.Cause(ctx)
		case a.Error == tooMany:
			err = ErrBusy
		case a.Error != notReady:
			err = broker.ErrNoAnswer
		}
		if silent {
			x.role.peers.failed(replica, time.Now())
		}
	}
	return Found{}, err
}

// search looks through the table, when fewer others do.
func (r *reading) search(ctx context.Context, s Search) (Found, error) {
	turn := time.NewTimer(turnPatience)
	defer turn.Stop()
	select {
	case r.x.searches <- struct{}{}:
		defer func() { <-r.x.searches }()
	case <-turn.C:
		return Found{}, ErrBusy
	case <-ctx.Done():
		return Found{}, context.Cause(ctx)
	}
	r.mu.Lock()
	asOf := r.reached
	r.mu.Unlock()
	found, err := r.table.search(ctx, s)
	found.AsOf = asOf.UnixNano()
	return found, err
}

// search looks at every row, some thousand at a time: jobs come and go meanwhile.
func (x *table) search(ctx context.Context, s Search) (Found, error) {
	c := collector{search: s, found: Found{Jobs: []FoundJob{}}, now: time.Now().UnixNano()}
	for k, v := range s.Labels {
		c.labels = append(c.labels, publisher.LabelOf(k, v))
	}
	c.found.Since = x.fellOutSince()
	for _, key := range x.keys(s.Filter) {
		for after, more := (row{}), true; more; {
			if ctx.Err() != nil {
				return Found{}, context.Cause(ctx)
			}
			after, more = x.scan(key, after, &c)
		}
	}
	if s.ByTenant {
		c.rankTenants()
	}
	if len(c.found.Jobs) > s.Size {
		c.found.Jobs, c.found.More = c.found.Jobs[:s.Size], true
	}
	return c.found, nil
}

func (x *table) fellOutSince() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.since
}

// keys are the lists that may have what is looked for.
func (x *table) keys(f Filter) []listKey {
	x.mu.RLock()
	defer x.mu.RUnlock()
	var out []listKey
	for key := range x.lists {
		if (f.Kind == "" || key.kind == f.Kind) && (f.Tenant == "" || key.tenant == f.Tenant) {
			out = append(out, key)
		}
	}
	return out
}

// scan looks at the rows of a list after one, in the order of the page, so that what comes
// first is met first; the zero row is before all. It returns the last that it has looked at,
// and whether there are more.
func (x *table) scan(key listKey, after row, c *collector) (last row, more bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	l := x.lists[key]
	if l == nil {
		return row{}, false
	}
	looked := 0
	look := func(r row) bool {
		if after.id != "" && compareRows(r, after) == 0 {
			return true
		}
		c.look(key, &r)
		last = row{created: r.created, id: r.id}
		looked++
		more = looked == scanRows
		return !more
	}
	switch {
	case c.search.Oldest:
		l.rows.Ascend(after, look)
	case after.id != "":
		l.rows.Descend(after, look)
	default:
		l.rows.Reverse(look)
	}
	return last, more
}

// collector has the first jobs that match, one more than the page has.
type collector struct {
	search Search
	labels []publisher.Label
	found  Found

	now     int64
	tenants map[string]*TenantJobs
}

func (c *collector) look(key listKey, r *row) {
	if !c.search.matches(r) || !c.matchesLabels(r) {
		return
	}
	if c.search.ByTenant {
		c.countFor(key.tenant, r)
		return
	}
	c.found.Total++
	p := place{Created: r.created, Kind: key.kind, Tenant: key.tenant, ID: r.id}
	if c.search.After != (place{}) && c.compare(p, c.search.After) <= 0 {
		return
	}
	jobs := c.found.Jobs
	if len(jobs) > c.search.Size && c.compare(p, jobs[c.search.Size].place) > 0 {
		return
	}
	at, _ := slices.BinarySearchFunc(jobs, p, func(f FoundJob, p place) int { return c.compare(f.place, p) })
	if len(jobs) > c.search.Size {
		jobs = jobs[:c.search.Size]
	}
	c.found.Jobs = slices.Insert(jobs, at, foundJob(p, r))
}

// matchesLabels reports whether a job has the labels that are looked for, and counts it where
// the index does not know.
func (c *collector) matchesLabels(r *row) bool {
	for _, l := range c.labels {
		has, sure := r.labels.Has(l)
		if !sure {
			c.found.Maybe++
		}
		if !has {
			return false
		}
	}
	return true
}

// countFor counts a job of a tenant.
func (c *collector) countFor(tenant string, r *row) {
	t := c.tenants[tenant]
	if t == nil {
		if c.tenants == nil {
			c.tenants = map[string]*TenantJobs{}
		}
		t = &TenantJobs{Tenant: tenant}
		c.tenants[tenant] = t
	}
	since := c.now - int64(lately)
	if r.created >= since {
		t.Accepted++
	}
	switch ended := task.TerminalWord(r.status); {
	case !ended:
		t.Unfinished++
		if r.status == task.StatusWord(genbusv1.JobStatus_JOB_STATUS_QUEUED) {
			t.Waiting++
		}
		if t.Oldest == 0 || r.created < t.Oldest {
			t.Oldest = r.created
		}
	case r.updated >= since:
		t.Ended++
		if r.status == task.StatusWord(genbusv1.JobStatus_JOB_STATUS_FAILED) {
			t.Failed++
		}
	}
}

// rankTenants keeps those with the most unfinished jobs, and of those that have as many the
// busiest.
func (c *collector) rankTenants() {
	all := make([]TenantJobs, 0, len(c.tenants))
	for _, t := range c.tenants {
		all = append(all, *t)
	}
	slices.SortFunc(all, func(a, b TenantJobs) int {
		return cmp.Or(cmp.Compare(b.Unfinished, a.Unfinished), cmp.Compare(b.Accepted+b.Ended, a.Accepted+a.Ended), strings.Compare(a.Tenant, b.Tenant))
	})
	c.found.Total = len(all)
	c.found.Tenants = all[:min(len(all), c.search.Size)]
}

func (c *collector) compare(a, b place) int {
	if c.search.Oldest {
		return a.compare(b)
	}
	return b.compare(a)
}

func foundJob(p place, r *row) FoundJob {
	w := r.words()
	return FoundJob{
		place: p, Status: r.status, Updated: r.updated,
		Phase: w.phase, Route: w.route, Model: w.model, Upstream: w.upstream, Key: w.key, ErrorCode: w.code, UpstreamTask: r.task, Labels: r.labels,
	}
}

// matches reports whether a row is looked for, but for its labels.
func (f *Filter) matches(r *row) bool {
	switch {
	case r.erased, f.Status == Unfinished && task.TerminalWord(r.status), f.Status != "" && f.Status != Unfinished && r.status != f.Status,
		len(f.IDs) > 0 && !slices.Contains(f.IDs, r.id) && (r.task == "" || !slices.Contains(f.IDs, r.task)),
		f.CreatedFrom > 0 && r.created < f.CreatedFrom, f.CreatedBefore > 0 && r.created >= f.CreatedBefore,
		f.UpdatedFrom > 0 && r.updated < f.UpdatedFrom, f.UpdatedBefore > 0 && r.updated >= f.UpdatedBefore,
		!f.matchesWords(r):
		return false
	}
	return true
}

func (f *Filter) matchesWords(r *row) bool {
	if f.Phase+f.Route+f.Model+f.Upstream+f.Key+f.ErrorCode == "" {
		return true
	}
	w := r.words()
	return wanted(f.Phase, w.phase) && wanted(f.Route, w.route) && wanted(f.Model, w.model) &&
		wanted(f.Upstream, w.upstream) && wanted(f.Key, w.key) && wanted(f.ErrorCode, w.code)
}

func wanted(want, is string) bool { return want == "" || want == is }

// searchToken is a page token: where the page begins, and what it is a page of.
type searchToken struct {
	place
	Of uint64 `json:"of"`
}

// digest tells searches apart, so that a token is not used with another one.
func (s Search) digest() uint64 {
	s.Size, s.After = 0, place{}
	h := fnv.New64a()
	if data, err := json.Marshal(s); err == nil { // maps are sorted
		_, _ = h.Write(data)
	}
	return h.Sum64()
}

func (s Search) formatToken(after place) string {
	data, err := json.Marshal(searchToken{place: after, Of: s.digest()})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func (s *Search) parseToken() error {
	s.After = place{}
	if s.Token == "" {
		return nil
	}
	var t searchToken
	data, err := base64.RawURLEncoding.DecodeString(s.Token)
	if err != nil || json.Unmarshal(data, &t) != nil || t.Of != s.digest() || !t.Kind.Valid() ||
		subject.CheckToken(t.Tenant) != nil || subject.CheckToken(t.ID) != nil {
		return ErrPageToken
	}
	s.After = t.place
	return nil
}
