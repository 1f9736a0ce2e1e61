package api_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/fault"
	"github.com/genbus/genbus/internal/subject"
)

// rule says how a gRPC method keeps tenants apart. A method without one fails
// TestTenantsAreApartOnEveryMethod.
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

	"/genbus.v1.ModelService/ListModels": showing,

	"/genbus.v1.OperatorService/ListDeadLetters":    operators,
	"/genbus.v1.OperatorService/GetDeadLetter":      operators,
	"/genbus.v1.OperatorService/RedriveDeadLetter":  operators,
	"/genbus.v1.OperatorService/DropDeadLetter":     operators,
	"/genbus.v1.OperatorService/AttachUpstreamTask": operators,
	"/genbus.v1.OperatorService/CancelJob":          operators,
	"/genbus.v1.OperatorService/EraseJob":           operators,
	"/genbus.v1.OperatorService/ListRoutes":         operators,
	"/genbus.v1.OperatorService/PauseRoute":         operators,
	"/genbus.v1.OperatorService/ResumeRoute":        operators,

	"/grpc.health.v1.Health/Check": everybody,
	"/grpc.health.v1.Health/List":  everybody,
	"/grpc.health.v1.Health/Watch": everybody,

	"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      everybody,
	"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": everybody,
}

// methodsOf are the full names of all methods of a server.
func methodsOf(s *grpc.Server) (out []string) {
	for service, info := range s.GetServiceInfo() {
		for _, m := range info.Methods {
			out = append(out, "/"+service+"/"+m.Name)
		}
	}
	return out
}

// TestTenantsAreApartOnEveryMethod is TestTenantsAreApartOnEveryPath for gRPC.
func TestTenantsAreApartOnEveryMethod(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	if diff := cmp.Diff(slices.Sorted(slices.Values(methodsOf(w.api.GRPCServer()))), slices.Sorted(maps.Keys(rules))); diff != "" {
		t.Fatalf("every method needs a rule here:\n%s", diff)
	}
	conn, before := w.dial(), w.states()
	t.Run("methods", func(t *testing.T) {
		for method, rule := range rules {
			t.Run(method, func(t *testing.T) {
				t.Parallel()
				w.checkMethod(caller{t: t, conn: conn}, method, rule)
			})
		}
	})
	if diff := cmp.Diff(before, w.states()); diff != "" {
		t.Errorf("acme's jobs have changed:\n%s", diff)
	}
}

func (w *tenancy) checkMethod(c caller, method string, rule rule) {
	c.t.Helper()
	if rule == everybody {
		return
	}
	for name, key := range map[string]string{"no key": "", "an unknown key": "key-acme2"} {
		if _, err := c.call(key, method, `{}`); status.Code(err) != codes.Unauthenticated {
			c.t.Errorf("%s with %s: %v", method, name, err)
		}
	}
	if _, err := c.call(operatorKey, method, `{}`); rule != operators && status.Code(err) != codes.Unauthenticated {
		c.t.Errorf("%s with an operator's key: %v", method, err)
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
		if _, err := c.call("key-globex", method, `{}`); status.Code(err) != codes.PermissionDenied || reason(err) != string(fault.OperatorRequired) {
			c.t.Errorf("%s with a tenant's key: %v", method, err)
		}
	}
}

func (w *tenancy) checkMethodAbout(c caller, method string) {
	c.t.Helper()
	for id := range w.ids() {
		_, got := c.call("key-globex", method, `{"id":"`+id+`"}`)
		_, want := c.call("key-globex", method, `{"id":"`+never(id)+`"}`)
		said, unknown := status.Convert(got).Message(), status.Convert(want).Message()
		if status.Code(got) != codes.NotFound || reason(got) != reason(want) || anyID.ReplaceAllString(said, "ID") != anyID.ReplaceAllString(unknown, "ID") || w.tells(strings.ReplaceAll(said, id, "")) {
			c.t.Errorf("%s: %v; of an id that never was: %v", method, got, want)
		}
	}
}

func (w *tenancy) checkMethodMakes(c caller, method string, rule rule) {
	c.t.Helper()
	name := strings.ReplaceAll(method, "/", "-")
	body, kind := `{"request":{"request_id":"`+name+`","chat":{"model":"sandbox-chat","messages":[{"role":"user","text":"hi"}]}}}`, subject.Chat
	if strings.Contains(method, "Video") {
		body, kind = `{"request":{"request_id":"`+name+`","video":{"model":"sandbox-video","prompt":"p"}}}`, subject.Video
	}
	made := func(key string) string {
		r, err := c.call(key, method, body)
		if rule == making && err != nil || rule == waiting && status.Code(err) != codes.DeadlineExceeded {
			c.t.Errorf("%s: %v", method, err)
		}
		if id := r.header.Get("genbus-job-id"); len(id) == 1 {
			return id[0]
		}
		return ""
	}
	if rule == waiting { // nobody runs the job, so that its callers give up
		var group sync.WaitGroup
		group.Go(func() { made("key-acme") })
		group.Go(func() { made("key-globex") })
		group.Wait()
		w.entry(kind, "acme", jobOf(kind, "acme", name))
		w.entry(kind, "globex", jobOf(kind, "globex", name))
		return
	}
	ours, theirs := made("key-acme"), made("key-globex")
	if ours == "" || theirs == ours || made("key-globex") != theirs {
		c.t.Errorf("%s: acme's job is %q, that of globex %q", method, ours, theirs)
	}
	w.entry(kind, "globex", theirs)
}

func (w *tenancy) checkMethodShows(c caller, method string) {
	c.t.Helper()
	for _, body := range []string{`{}`, `{"page_size":100}`, `{"page_size":1,"page_token":"` + w.token + `"}`} {
		if !strings.Contains(method, "Video") && body != `{}` {
			continue
		}
		if r, err := c.call("key-globex", method, body); err != nil || w.tells(r.text) {
			c.t.Errorf("%s %s: %v, %s", method, body, err, r.text)
		}
	}
}

// caller calls any method, with a message in JSON.
type caller struct {
	t    testing.TB
	conn *grpc.ClientConn
}

// reply is the first message of an answer, in JSON, and its header.
type reply struct {
	text   string
	header metadata.MD
}

// patience is enough for an answer, and what is left of it is waited for where
// there is none.
const patience = 2 * time.Second

func (c caller) call(key, method, body string) (reply, error) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	in, out := c.messages(method)
	if err := protojson.Unmarshal([]byte(body), in); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := s.SendMsg(in); err != nil {
		c.t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		c.t.Fatal(err)
	}
	err = s.RecvMsg(out)
	header, _ := s.Header() // the error is that of the call
	return reply{text: protojson.Format(out), header: header}, err
}

// messages are a request and an answer of a method.
func (c caller) messages(method string) (in, out proto.Message) {
	c.t.Helper()
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		c.t.Fatal(err)
	}
	m := d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name)) //nolint:forcetypeassert // a service is one
	return c.message(m.Input()), c.message(m.Output())
}

func (c caller) message(d protoreflect.MessageDescriptor) proto.Message {
	c.t.Helper()
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		c.t.Fatal(err)
	}
	return t.New().Interface()
}

// TestTenantsAreApartOnNATS: the subject names the tenant, and one tenant's name of
// a request is nothing to another.
func TestTenantsAreApartOnNATS(t *testing.T) {
	t.Parallel()
	w := newTenancy(t)
	w.calls()
	before := w.states()
	for kind, row := range map[subject.Kind]struct{ name, body string }{
		subject.Video: {acmeOrder, videoBody}, subject.Chat: {acmeTalk, talkBody(acmeMark)},
	} {
		header := nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}, subject.HeaderRequestID: {row.name}}
		m := w.call(w.broker.Names().Call(kind, "globex"), header, []byte(row.body))
		id := m.Header.Get(subject.HeaderJobID)
		if m.Header.Get(subject.HeaderErrorCode) != "" || w.ids()[id] != "" || id != jobOf(kind, "globex", row.name) {
			t.Errorf("%s: job %q, %v %s", kind, id, m.Header, m.Data)
		}
		w.entry(kind, "globex", id)
	}
	if diff := cmp.Diff(before, w.states()); diff != "" {
		t.Errorf("acme's jobs have changed:\n%s", diff)
	}
}

// jobOf is the id that a tenant's request has by its name.
func jobOf(kind subject.Kind, tenant, requestID string) string {
	return admission.Request{Kind: kind, Tenant: tenant, RequestID: requestID}.JobID()
}
