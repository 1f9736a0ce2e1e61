package apitest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/grpcstatus"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/jobtable"
	"github.com/genbus/genbus/internal/subject"
)

// VideoRequest returns a create request with a prompt.
func VideoRequest(prompt string) *genbusv1.CreateVideoTaskRequest {
	return &genbusv1.CreateVideoTaskRequest{Request: &genbusv1.VideoRequest{
		Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "sandbox-video", Prompt: prompt}},
	}}
}

// NoModel returns a request that every ingress rejects.
func NoModel() *genbusv1.CreateVideoTaskRequest {
	r := VideoRequest("a cat")
	r.GetRequest().GetVideo().Model = ""
	return r
}

// Reason returns the genbus code in an error's details.
func Reason(err error) string {
	for _, d := range status.Convert(err).Details() {
		if info, ok := d.(*errdetails.ErrorInfo); ok && info.GetDomain() == grpcstatus.Domain {
			return info.GetReason()
		}
	}
	return ""
}

// CheckStatus fails the test unless err has the given gRPC code and genbus code.
func CheckStatus(t *testing.T, err error, code codes.Code, why errcode.Code) {
	t.Helper()
	if status.Code(err) != code || Reason(err) != string(why) {
		t.Errorf("%v (%s), want %s %s", err, Reason(err), code, why)
	}
}

// Listed waits until the index lists a task with the given status.
func (w *World) Listed(id string, s genbusv1.JobStatus) {
	w.T.Helper()
	w.Await(id+" in the list", func() bool {
		page := Must[jobindex.Page](w.T)(w.Index.List(w.T.Context(), jobtable.Query{Kind: subject.Video, Tenant: "default", Status: s}))
		return slices.ContainsFunc(page.Jobs, func(e joblog.Entry) bool { return e.Job.GetId() == id })
	})
}

// Caller calls any gRPC method with a JSON message.
type Caller struct {
	T    testing.TB
	Conn *grpc.ClientConn
	// Context is the context of the calls. Default: the test's context. Each call also times out
	// after brokertest.Patience.
	Context context.Context
}

// Reply is the first message of an answer as JSON, with the answer's header.
type Reply struct {
	Text   string
	Header metadata.MD
}

// Call sends one message to a method, with an API key, and returns the first message of the answer.
func (c Caller) Call(key, method, body string) (Reply, error) {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(cmp.Or(c.Context, c.T.Context()), brokertest.Patience)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	in, out := c.messages(method)
	if err := protojson.Unmarshal([]byte(body), in); err != nil {
		c.T.Fatalf("%s: %v", method, err)
	}
	s, err := c.Conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		c.T.Fatal(err)
	}
	if err := s.SendMsg(in); err != nil {
		c.T.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		c.T.Fatal(err)
	}
	err = s.RecvMsg(out)
	header, _ := s.Header() // RecvMsg has returned the error
	return Reply{Text: protojson.Format(out), Header: header}, err
}

// messages returns an empty request and an empty answer for a method.
func (c Caller) messages(method string) (in, out proto.Message) {
	c.T.Helper()
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service))
	if err != nil {
		c.T.Fatal(err)
	}
	m := d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(name)) //nolint:forcetypeassert // the name is of a service
	return c.message(m.Input()), c.message(m.Output())
}

func (c Caller) message(d protoreflect.MessageDescriptor) proto.Message {
	c.T.Helper()
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		c.T.Fatal(err)
	}
	return t.New().Interface()
}

// JobID returns the job ID for a tenant's request ID.
func JobID(kind subject.Kind, tenant, requestID string) string {
	return admission.Request{Kind: kind, Tenant: tenant, RequestID: requestID}.JobID()
}
