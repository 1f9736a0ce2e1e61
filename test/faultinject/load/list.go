package load

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

const (
	// listEvery is the interval between lists. listTimeout bounds one page.
	listEvery   = 200 * time.Millisecond
	listTimeout = 5 * time.Second
	// followShare is the share of lists whose next pages are also requested, up to maxPages pages.
	followShare, maxPages = 0.3, 4
	// firstList is the number of the first list. It is larger than the numbers of all wishes.
	firstList = 1 << 40
	// wholePage is the page size of a whole list. It is small so that a list has several pages.
	wholePage = 20
	// wholePatience is how long a replica may fail to return a page of a whole list. maxWholePages
	// bounds the number of pages of such a list.
	wholePatience = 30 * time.Second
	maxWholePages = 10_000
)

// listSizes are the page sizes of requests. Short pages keep the history small.
var listSizes = []int{1, 5, 10, 20}

// Listing requests lists of video tasks until ctx ends. It returns when all its requests have
// ended. It may run concurrently with Run.
func (l *Load) Listing(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	for n := 0; faultinject.Pause(ctx, listEvery); n++ {
		all.Go(func() { l.list(ctx, n) })
	}
}

// list requests the first page of the n-th list, and sometimes the following pages. It requests
// each page from a random replica, because page tokens are valid on all replicas.
func (l *Load) list(ctx context.Context, n int) {
	random := rand.New(rand.NewPCG(l.o.Seed, firstList+uint64(n)))
	tenants := l.listed()
	c := l.inTheNameOf(tenants[random.IntN(len(tenants))])
	size, pages := listSizes[random.IntN(len(listSizes))], 1
	if chance(random, followShare) {
		pages = maxPages
	}
	token := ""
	for range pages {
		p := page{at: random.IntN(len(l.o.Replicas)), rpc: chance(random, 0.5), size: size, token: token}
		var got check.Listed
		got, token = c.page(ctx, p)
		if ctx.Err() != nil && got.Lost != "" {
			return // the end of the run interrupted the request
		}
		l.o.Recorder.List(got)
		if token == "" {
			return
		}
	}
}

// listed returns the tenants whose lists are requested.
func (l *Load) listed() []Tenant { return slices.Concat(l.o.Tenants, l.o.Others) }

// inTheNameOf returns a client without a wish.
func (l *Load) inTheNameOf(t Tenant) *client { return &client{Load: l, wish: wish{tenant: t}} }

// WholeLists returns the list of all video tasks of each tenant from each of these replicas, which
// are given by number. A list is not Good if its replica fails to return a page for half a minute.
// The Recorder also keeps failed answers.
func (l *Load) WholeLists(ctx context.Context, replicas []int) []check.Listed {
	tenants := l.listed()
	out := make([]check.Listed, len(replicas)*len(tenants))
	var all sync.WaitGroup
	for i, at := range replicas {
		for j, t := range tenants {
			all.Go(func() { out[i*len(tenants)+j] = l.inTheNameOf(t).whole(ctx, at) })
		}
	}
	all.Wait()
	return out
}

// whole returns the list of one replica, read page by page.
func (c *client) whole(ctx context.Context, at int) check.Listed {
	out := check.Listed{Asked: time.Now(), Tenant: c.tenant.Name, Target: c.o.Replicas[at].Name}
	token := ""
	for n := range c.wholePages {
		got, next := c.insistOnPage(ctx, page{at: at, rpc: n%2 == 1, size: wholePage, token: token})
		out.Time, out.Code, out.HTTP, out.Lost = got.Time, got.Code, got.HTTP, got.Lost
		out.Jobs = append(out.Jobs, got.Jobs...)
		if token = next; token == "" {
			return out
		}
	}
	out.Lost = "the list has no last page"
	return out
}

// insistOnPage requests a page until it is returned or the replica has failed for too long.
func (c *client) insistOnPage(ctx context.Context, p page) (got check.Listed, next string) {
	for begin := time.Now(); ; {
		got, next = c.page(ctx, p)
		if got.Good() {
			return got, next
		}
		c.o.Recorder.List(got)
		if time.Since(begin) > wholePatience || !faultinject.Pause(ctx, listEvery) {
			return got, ""
		}
	}
}

type page struct {
	at    int  // number of the replica
	rpc   bool // gRPC instead of HTTP
	size  int
	token string // from the previous page; empty for the first one
}

// page requests a page of the tenant's video tasks. next is the token of the next page.
func (c *client) page(ctx context.Context, p page) (got check.Listed, next string) {
	ctx, cancel := context.WithTimeout(c.tenant.calling(ctx), listTimeout)
	defer cancel()
	got = check.Listed{Asked: time.Now(), Tenant: c.tenant.Name, Ingress: "http", Target: c.o.Replicas[p.at].Name, Paged: p.token != ""}
	var a answer
	var r *genbusv1.ListVideoTasksResponse
	if p.rpc {
		got.Ingress = "grpc"
		r = c.listRPC(ctx, p, &a)
	} else {
		r = c.listWeb(ctx, p, &a)
	}
	got.Time, got.Code, got.HTTP, got.Lost = time.Now(), a.Code, a.HTTP, a.Lost
	if !got.Good() {
		return got, ""
	}
	for _, t := range r.GetTasks() {
		got.Jobs = append(got.Jobs, t.GetId())
	}
	return got, r.GetNextPageToken()
}

func (c *client) listRPC(ctx context.Context, p page, a *answer) *genbusv1.ListVideoTasksResponse {
	r, err := c.videos(p.at).ListVideoTasks(ctx, &genbusv1.ListVideoTasksRequest{
		PageSize: int32(p.size), PageToken: p.token,
	})
	a.answered(err, func() {})
	return r
}

func (c *client) listWeb(ctx context.Context, p page, a *answer) *genbusv1.ListVideoTasksResponse {
	query := url.Values{"page_size": {strconv.Itoa(p.size)}}
	if p.token != "" {
		query.Set("page_token", p.token)
	}
	var r genbusv1.ListVideoTasksResponse
	c.exchange(ctx, p.at, http.MethodGet, pathGatewayVideos+"?"+query.Encode(), http.Header{}, nil, a, func(resp *http.Response) {
		data, err := io.ReadAll(resp.Body)
		if err == nil {
			err = protojson.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(data, &r)
		}
		if err != nil {
			a.lost(err)
		}
	})
	return &r
}
