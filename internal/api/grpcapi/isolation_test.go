package grpcapi_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// rule says how a gRPC method separates tenants. TestTenantsAreApartOnEveryMethod fails for a
// method without a rule.
type rule string

const (
	about     rule = "about a job by its id"
	making    rule = "makes a job"
	waiting   rule = "makes a job and waits for it"
	showing   rule = "shows jobs, or nothing of a tenant"
	operators rule = "for operators"
	everybody rule = "needs no key"
)

var rules = map[string]rule{
	"/genbus.v1.VideoService/CreateVideoTask": making,
	"/genbus.v1.VideoService/GetVideoTask":    about,
	"/genbus.v1.VideoService/ListVideoTasks":  showing,
	"/genbus.v1.VideoService/CancelVideoTask": about,
	"/genbus.v1.VideoService/WatchVideoTask":  about,
	"/genbus.v1.VideoService/DeleteVideoTask": about,
	"/genbus.v1.VideoService/DownloadVideo":   about,

	"/genbus.v1.ChatService/CreateChatCompletion": waiting,
	"/genbus.v1.ChatService/StreamChatCompletion": waiting,
	"/genbus.v1.ChatService/SubmitChatCompletion": making,
	"/genbus.v1.ChatService/GetChatCompletion":    about,
	"/genbus.v1.ChatService/WatchChatCompletion":  about,
	"/genbus.v1.ChatService/CancelChatCompletion": about,
	"/genbus.v1.ChatService/ListChatCompletions":  showing,

	"/genbus.v1.ModelService/ListModels": showing,

	"/grpc.health.v1.Health/Check": everybody,
	"/grpc.health.v1.Health/List":  everybody,
	"/grpc.health.v1.Health/Watch": everybody,

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      everybody,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": everybody,
}

func methodsOf(s *grpc.Server) (out []string) {
	for service, info := range s.GetServiceInfo() {
		for _, m := range info.Methods {
			out = append(out, "/"+service+"/"+m.Name)
		}
	}
	return out
}

// TestTenantsAreApartOnEveryMethod checks that gRPC methods separate tenants, like
// TestTenantsAreApartOnEveryPath for HTTP.
func TestTenantsAreApartOnEveryMethod(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	rules := maps.Clone(rules)
	for _, method := range methodsOf(w.GRPC.GRPCServer()) {
		if strings.HasPrefix(method, "/"+genbusv1grpc.OperatorService_ServiceDesc.ServiceName+"/") {
			rules[method] = operators
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(methodsOf(w.GRPC.GRPCServer()))), slices.Sorted(maps.Keys(rules))); diff != "" {
		t.Fatalf("every method needs a rule here:\n%s", diff)
	}
	conn, before := w.Dial(), w.States()
	t.Run("methods", func(t *testing.T) {
		for method, rule := range rules {
			t.Run(method, func(t *testing.T) {
				t.Parallel()
				w.checkMethod(apitest.Caller{T: t, Conn: conn}, method, rule)
			})
		}
	})
	if diff := cmp.Diff(before, w.States()); diff != "" {
		t.Errorf("acme's jobs have changed:\n%s", diff)
	}
}

func (w *tenancy) checkMethod(c apitest.Caller, method string, rule rule) {
	c.T.Helper()
	if rule == everybody {
		return
	}
	for name, key := range map[string]string{"no key": "", "an unknown key": "key-acme2"} {
		if _, err := c.Call(key, method, `{}`); status.Code(err) != codes.Unauthenticated {
			c.T.Errorf("%s with %s: %v", method, name, err)
		}
	}
	if _, err := c.Call(apitest.OperatorKey, method, `{}`); rule != operators && status.Code(err) != codes.Unauthenticated {
		c.T.Errorf("%s with an operator's key: %v", method, err)
	}
	switch rule {
	case about:
		w.checkMethodAbout(c, method)
	case making, waiting:
		w.checkMethodMakes(c, method, rule)
	case showing:
		w.checkMethodShows(c, method)
	case everybody:
	case operators:
		if _, err := c.Call("key-globex", method, `{}`); status.Code(err) != codes.PermissionDenied || apitest.Reason(err) != string(errcode.OperatorRequired) {
			c.T.Errorf("%s with a tenant's key: %v", method, err)
		}
	}
}

func (w *tenancy) checkMethodAbout(c apitest.Caller, method string) {
	c.T.Helper()
	for id := range w.IDs() {
		_, got := c.Call("key-globex", method, `{"id":"`+id+`"}`)
		_, want := c.Call("key-globex", method, `{"id":"`+apitest.Never(id)+`"}`)
		said, unknown := status.Convert(got).Message(), status.Convert(want).Message()
		if status.Code(got) != codes.NotFound || apitest.Reason(got) != apitest.Reason(want) || apitest.AnyID.ReplaceAllString(said, "ID") != apitest.AnyID.ReplaceAllString(unknown, "ID") || w.Reveals(strings.ReplaceAll(said, id, "")) {
			c.T.Errorf("%s: %v; of an id that never was: %v", method, got, want)
		}
	}
}

func (w *tenancy) checkMethodMakes(c apitest.Caller, method string, rule rule) {
	c.T.Helper()
	name := strings.ReplaceAll(method, "/", "-")
	body, kind := `{"request":{"request_id":"`+name+`","chat":{"model":"sandbox-chat","messages":[{"role":"user","text":"hi"}]}}}`, subject.Chat
	if strings.Contains(method, "Video") {
		body, kind = `{"request":{"request_id":"`+name+`","video":{"model":"sandbox-video","prompt":"p"}}}`, subject.Video
	}
	ctx, giveUp := context.WithCancel(c.T.Context())
	defer giveUp()
	c.Context = ctx
	made := func(key string) string {
		r, err := c.Call(key, method, body)
		if rule == making && err != nil || rule == waiting && status.Code(err) != codes.Canceled {
			c.T.Errorf("%s: %v", method, err)
		}
		if id := r.Header.Get("genbus-job-id"); len(id) == 1 {
			return id[0]
		}
		return ""
	}
	if rule == waiting { // no replica runs the job, so callers give up once it is accepted
		var group sync.WaitGroup
		for _, tenant := range []string{"acme", "globex"} {
			group.Go(func() { made("key-" + tenant) })
			w.Await("the job of "+tenant, func() bool {
				_, err := w.Log.Get(c.T.Context(), subject.JobName{Kind: kind, Tenant: tenant, ID: apitest.JobID(kind, tenant, name)})
				return err == nil
			})
		}
		giveUp()
		group.Wait()
		return
	}
	ours, theirs := made("key-acme"), made("key-globex")
	if ours == "" || theirs == ours || made("key-globex") != theirs {
		c.T.Errorf("%s: acme's job is %q, that of globex %q", method, ours, theirs)
	}
	w.Entry(kind, "globex", theirs)
}

func (w *tenancy) checkMethodShows(c apitest.Caller, method string) {
	c.T.Helper()
	for _, body := range []string{`{}`, `{"page_size":100}`, `{"page_size":1,"page_token":"` + w.Token + `"}`} {
		if strings.HasSuffix(method, "ListModels") && body != `{}` {
			continue
		}
		if r, err := c.Call("key-globex", method, body); err != nil || w.Reveals(r.Text) {
			c.T.Errorf("%s %s: %v, %s", method, body, err, r.Text)
		}
	}
}
