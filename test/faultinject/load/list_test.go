package load

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/test/faultinject/check"
)

// lister is a video service with some tasks. A page token is the number of the first task of the
// page.
type lister struct {
	genbusv1grpc.UnimplementedVideoServiceServer
	tasks int

	mu      sync.Mutex
	refuses int // number of HTTP requests to refuse first; negative: all
	endless bool
}

func (l *lister) ListVideoTasks(_ context.Context, q *genbusv1.ListVideoTasksRequest) (*genbusv1.ListVideoTasksResponse, error) {
	out := &genbusv1.ListVideoTasksResponse{}
	at, _ := strconv.Atoi(q.GetPageToken())
	for i := at; i < l.tasks && len(out.GetTasks()) < int(q.GetPageSize()); i++ {
		out.Tasks = append(out.Tasks, &genbusv1.VideoTask{Id: fmt.Sprint("video_", i)})
	}
	if next := at + len(out.GetTasks()); next < l.tasks {
		out.NextPageToken = strconv.Itoa(next)
	}
	if l.endless {
		out.NextPageToken = "0"
	}
	return out, nil
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuses != 0 {
		l.refuses--
		errcode.New(errcode.IndexCatchingUp, "no").WriteHTTP(w)
		return
	}
	size, _ := strconv.Atoi(r.URL.Query().Get("page_size"))
	q := &genbusv1.ListVideoTasksRequest{PageSize: int32(size), PageToken: r.URL.Query().Get("page_token")}
	page, err := l.ListVideoTasks(r.Context(), q)
	if err != nil {
		panic(err)
	}
	data, err := protojson.Marshal(page)
	if err != nil {
		panic(err)
	}
	_, _ = w.Write(data) // a client may have disconnected
}

func newListing(t *testing.T, service *lister) *Load {
	t.Helper()
	return newLoad(t, service, func(s *grpc.Server) { genbusv1grpc.RegisterVideoServiceServer(s, service) })
}

// TestAListIsOnePageOrMore proves that the seed decides the requests for lists, and that each page
// is recorded.
func TestAListIsOnePageOrMore(t *testing.T) {
	t.Parallel()
	ways, paged, noted := map[string]bool{}, 0, [2][]check.Listed{}
	for i := range noted {
		l := newListing(t, &lister{tasks: 30})
		for n := range 40 {
			l.list(t.Context(), n)
		}
		noted[i] = l.o.Recorder.Lists()
	}
	for i, got := range noted[0] {
		if !slices.Equal(got.Jobs, noted[1][i].Jobs) || got.Ingress != noted[1][i].Ingress {
			t.Errorf("the same seed asks for %+v and for %+v", got, noted[1][i])
		}
		if !got.Good() || len(got.Jobs) == 0 || got.Tenant != "default" || got.Target != "0" || got.Asked.IsZero() || got.Time.Before(got.Asked) {
			t.Errorf("noted %+v", got)
		}
		if (got.Jobs[0] != "video_0") != got.Paged {
			t.Errorf("a page that begins with %s has paged %t", got.Jobs[0], got.Paged)
		}
		ways[got.Ingress] = true
		if got.Paged {
			paged++
		}
	}
	if len(noted[0]) != 40+paged || paged == 0 || !ways["http"] || !ways["grpc"] {
		t.Errorf("%d pages, %d of them by a token, by %v", len(noted[0]), paged, ways)
	}
}

// TestListingEndsWithItsContext proves that Listing returns when its context ends, and does not
// record requests that are still open.
func TestListingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{}, 100)
	l := newLoad(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}), noRPC)
	go func() {
		defer cancel()
		<-asked
	}()
	l.Listing(ctx)
	for _, got := range l.o.Recorder.Lists() {
		if got.Ingress == "http" {
			t.Errorf("noted %+v", got)
		}
	}
}

// TestAWholeList proves that a whole list has all pages, from both ingresses, even after refusals.
func TestAWholeList(t *testing.T) {
	t.Parallel()
	const tasks = 3*wholePage + 1
	l := newListing(t, &lister{tasks: tasks, refuses: 2})
	l.o.Others = []Tenant{{Name: "other"}}
	got := l.WholeLists(t.Context(), []int{0})
	if len(got) != 2 || got[1].Tenant != "other" || len(got[1].Jobs) != tasks || !got[0].Good() || got[0].Tenant != "default" || got[0].Target != "0" || len(got[0].Jobs) != tasks || got[0].Jobs[tasks-1] != fmt.Sprint("video_", tasks-1) {
		t.Errorf("the whole list is %+v", got)
	}
	if noted := l.o.Recorder.Lists(); len(noted) != 2 || noted[0].Code != "index_catching_up" || noted[0].HTTP != http.StatusServiceUnavailable {
		t.Errorf("noted %+v", noted)
	}
}

// TestAListThatIsNotGiven proves that a list is given up with a reason if it is refused or has no
// end.
func TestAListThatIsNotGiven(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond) // less than wholePatience
	defer cancel()
	got := newListing(t, &lister{refuses: -1}).WholeLists(ctx, []int{0})
	if len(got) != 1 || got[0].Good() {
		t.Errorf("a list that is refused is %+v", got)
	}
	endless := newListing(t, &lister{endless: true})
	endless.wholePages = 30
	if got := endless.WholeLists(t.Context(), []int{0}); len(got) != 1 || got[0].Good() {
		t.Errorf("a list without an end is %+v", got)
	}
}
