package natsreq_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
)

func storedVideo(ref *genbusv1.BlobRef) *genbusv1.VideoRequest {
	return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_Stored{Stored: ref}}
}

func storedChat(ref *genbusv1.BlobRef) *genbusv1.ChatRequest {
	return &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Stored{Stored: ref}}
}

func rawVideo(json string) *genbusv1.VideoRequest {
	return &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(json)}}
}

// ref returns a valid reference to an object that is not stored.
func ref(change func(*genbusv1.BlobRef)) *genbusv1.BlobRef {
	r := &genbusv1.BlobRef{Name: "upload-a", Size: 1, Sha256: make([]byte, sha256.Size)}
	change(r)
	return r
}

// TestAnUploadIsTheRequestThatItHolds checks that an upload gives the same request as a message
// with the same content and headers.
func TestAnUploadIsTheRequestThatItHolds(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	uploads := natsreq.NewUploads(broker.NewBodies(b), brokertest.Logger(t))
	header := nats.Header{"genbus-request-id": {"r1"}, "genbus-labels": {"a=b,c=d"}}
	video := rawVideo(`{"model": "m", "prompt" : "p"}`)
	video.RequestId, video.Labels, video.RetryOf, video.Protocol, video.Archive = "r1", map[string]string{"a": "b"}, "old", "primary", proto.Bool(true)
	chat := &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_Chat{Chat: &genbusv1.ChatCompletionBody{Model: "m"}}}
	for name, row := range map[string]struct {
		subject string
		header  nats.Header
		whole   proto.Message
		stored  func(*genbusv1.BlobRef) proto.Message
	}{
		"video":             {names.Call(subject.Video, "acme"), header, video, func(r *genbusv1.BlobRef) proto.Message { return storedVideo(r) }},
		"chat":              {names.Request(subject.Chat, "acme"), nil, chat, func(r *genbusv1.BlobRef) proto.Message { return storedChat(r) }},
		"chat with headers": {names.Request(subject.Chat, "acme"), header, chat, func(r *genbusv1.BlobRef) proto.Message { return storedChat(r) }},
		"a named bucket": {names.Call(subject.Video, "acme"), nil, video, func(r *genbusv1.BlobRef) proto.Message {
			r.Bucket = names.Bodies("acme")
			return storedVideo(r)
		}},
	} {
		want, err := natsreq.Decode(names, row.subject, row.header, marshal(t, row.whole))
		if err != nil {
			t.Fatal(err)
		}
		got, err := natsreq.Decode(names, row.subject, row.header, marshal(t, row.stored(brokertest.Upload(t, b.JetStream(), "acme", name, row.whole))))
		if err != nil || got.Upload == nil {
			t.Fatalf("%s: %v, %v", name, got.Upload, err)
		}
		source := admission.ByRequestID("kept")
		want.Source, got.Source = &source, &source
		release, err := uploads.Complete(t.Context(), &got, time.Second)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		release()
		if diff := cmp.Diff(want.Request, got.Request, cmpopts.IgnoreUnexported(admission.Source{}), cmp.AllowUnexported(body.Document{}), protocmp.Transform()); diff != "" {
			t.Errorf("%s: -whole +stored:\n%s", name, diff)
		}
		uploads.Remove(t.Context(), got.Upload)
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestWrongReferences(t *testing.T) {
	t.Parallel()
	extra := storedVideo(ref(func(*genbusv1.BlobRef) {}))
	extra.RequestId, extra.Archive = "r", proto.Bool(false)
	for name, row := range map[string]struct {
		message proto.Message
		code    errcode.Code
		says    string
	}{
		"another bucket":     {storedVideo(ref(func(r *genbusv1.BlobRef) { r.Bucket = names.Bodies("globex") })), errcode.InvalidRequest, "stored.bucket"},
		"another name":       {storedVideo(ref(func(r *genbusv1.BlobRef) { r.Name = "video_x-0" })), errcode.InvalidRequest, "stored.name"},
		"no name":            {storedChat(ref(func(r *genbusv1.BlobRef) { r.Name = "" })), errcode.InvalidRequest, "stored.name"},
		"a long name":        {storedChat(ref(func(r *genbusv1.BlobRef) { r.Name = "upload-" + strings.Repeat("x", 249) })), errcode.InvalidRequest, "stored.name"},
		"a name to be read":  {storedChat(ref(func(r *genbusv1.BlobRef) { r.Name = "upload-\n" })), errcode.InvalidRequest, "stored.name"},
		"no size":            {storedVideo(ref(func(r *genbusv1.BlobRef) { r.Size = 0 })), errcode.InvalidRequest, "stored.size"},
		"no digest":          {storedVideo(ref(func(r *genbusv1.BlobRef) { r.Sha256 = nil })), errcode.InvalidRequest, "stored.sha256"},
		"too large":          {storedVideo(ref(func(r *genbusv1.BlobRef) { r.Size = natsreq.MaxUpload + 1 })), errcode.BodyTooLarge, "34603009"},
		"fields beside":      {extra, errcode.InvalidRequest, "must be empty if stored is set"},
		"an empty reference": {storedChat(&genbusv1.BlobRef{}), errcode.InvalidRequest, "stored.name"},
	} {
		kind := subject.Video
		if _, ok := row.message.(*genbusv1.ChatRequest); ok {
			kind = subject.Chat
		}
		in, err := natsreq.Decode(names, names.Call(kind, "acme"), nil, marshal(t, row.message))
		var f *errcode.Error
		if !errors.As(err, &f) || f.Code != row.code || !strings.Contains(f.Message, row.says) {
			t.Errorf("%s: %v, want %s with %q", name, err, row.code, row.says)
		}
		if in.Upload != nil || in.Tenant != "acme" {
			t.Errorf("%s: %+v", name, in)
		}
	}
	_, err := natsreq.Decode(names, names.Call(subject.Video, "acme"), nil, marshal(t, storedVideo(ref(func(r *genbusv1.BlobRef) { r.Size = natsreq.MaxUpload }))))
	if err != nil {
		t.Errorf("the largest: %v", err)
	}
}

// TestUploadsThatAreNoRequest checks that unreadable and invalid uploads are refused with a reason
// and release their slot.
func TestUploadsThatAreNoRequest(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	uploads := natsreq.NewUploads(broker.NewBodies(b), brokertest.Logger(t))
	good := brokertest.Upload(t, b.JetStream(), "acme", "good", rawVideo(`{}`))
	changed := func(change func(*genbusv1.BlobRef)) *genbusv1.BlobRef {
		r := proto.CloneOf(good)
		change(r)
		return r
	}
	for name, row := range map[string]struct {
		tenant string
		ref    *genbusv1.BlobRef
		header nats.Header
		code   errcode.Code
		says   string
	}{
		"missing":            {"acme", changed(func(r *genbusv1.BlobRef) { r.Name = "upload-never" }), nil, errcode.InputLost, "upload the request again"},
		"another digest":     {"acme", changed(func(r *genbusv1.BlobRef) { r.Sha256[0]++ }), nil, errcode.InputLost, "sha256"},
		"another size":       {"acme", changed(func(r *genbusv1.BlobRef) { r.Size++ }), nil, errcode.InputLost, "size"},
		"another's":          {"globex", good, nil, errcode.InputLost, "GENBUS_BODIES_globex"},
		"nested":             {"acme", brokertest.Upload(t, b.JetStream(), "acme", "nested", storedVideo(good)), nil, errcode.InvalidRequest, "store the request itself"},
		"another message":    {"acme", brokertest.Upload(t, b.JetStream(), "acme", "other", &genbusv1.BlobRef{Bucket: "\x7f"}), nil, errcode.InvalidRequest, "missing"},
		"no message":         {"acme", brokertest.Upload(t, b.JetStream(), "acme", "none", &genbusv1.VideoRequest{RetryOf: "video_x"}), nil, errcode.InvalidRequest, "body"},
		"another request id": {"acme", brokertest.Upload(t, b.JetStream(), "acme", "id", &genbusv1.VideoRequest{RequestId: "a", Body: rawVideo(`{}`).GetBody()}), nats.Header{"genbus-request-id": {"b"}}, errcode.InvalidRequest, "request_id"},
	} {
		for range 9 { // more than there are slots
			in, err := natsreq.Decode(names, names.Call(subject.Video, row.tenant), row.header, marshal(t, storedVideo(row.ref)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			release, err := uploads.Complete(t.Context(), &in, time.Second)
			var f *errcode.Error
			if !errors.As(err, &f) || f.Code != row.code || !strings.Contains(f.Message, row.says) {
				t.Fatalf("%s: %v, want %s with %q", name, err, row.code, row.says)
			}
			release()
			if row.code == errcode.InputLost {
				uploads.Remove(t.Context(), in.Upload)
			}
		}
	}
	if left := brokertest.Uploads(t, b.JetStream(), "acme"); len(left) != 5 {
		t.Errorf("left: %v; what was not read is nobody's to remove", left)
	}
}

// TestPlaces checks that a process reads at most eight uploads at a time, and refuses others with a
// Retry-After.
func TestPlaces(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	uploads := natsreq.NewUploads(broker.NewBodies(b), brokertest.Logger(t))
	stored := marshal(t, storedVideo(brokertest.Upload(t, b.JetStream(), "acme", "a", rawVideo(`{}`))))
	take := func(ctx context.Context, wait time.Duration) (func(), error) {
		in, err := natsreq.Decode(names, names.Call(subject.Video, "acme"), nil, stored)
		if err != nil {
			t.Fatal(err)
		}
		return uploads.Complete(ctx, &in, wait)
	}
	var releases []func()
	for range 8 {
		release, err := take(t.Context(), time.Second)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	var f *errcode.Error
	if release, err := take(t.Context(), time.Millisecond); !errors.As(err, &f) || f.Code != errcode.QueueFull || f.RetryAfter != time.Second {
		release()
		t.Errorf("the ninth: %v", err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cause := errcode.New(errcode.AcceptanceUnknown, "no answer")
	cancel(cause)
	if _, err := take(gone, time.Minute); errcode.CodeOf(err) != errcode.BrokerUnavailable || !errors.Is(err, cause) || strings.Contains(err.Error(), "no answer") {
		t.Errorf("one who goes away: %v", err)
	}
	whole := natsreq.Incoming{}
	if _, err := uploads.Complete(t.Context(), &whole, 0); err != nil {
		t.Errorf("one that came whole: %v", err)
	}
	releases[0]()
	releases[0]()
	release, err := take(t.Context(), time.Second)
	if err != nil {
		t.Fatalf("after a release: %v", err)
	}
	if _, err := take(t.Context(), 0); errcode.CodeOf(err) != errcode.QueueFull {
		t.Errorf("a place was given back twice: %v", err)
	}
	release()
}

// TestUploadOfALostBroker checks that the caller gets a one-line error without stream names.
func TestUploadOfALostBroker(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	uploads := natsreq.NewUploads(broker.NewBodies(b), brokertest.Logger(t))
	in, err := natsreq.Decode(names, names.Call(subject.Video, "acme"), nil,
		marshal(t, storedVideo(brokertest.Upload(t, b.JetStream(), "acme", "a", rawVideo(`{}`)))))
	if err != nil {
		t.Fatal(err)
	}
	b.Conn().Close()
	release, err := uploads.Complete(t.Context(), &in, time.Second)
	release()
	const want = "the stored request was not read, and nothing was accepted: JetStream is unavailable: not connected to NATS"
	if f := errcode.From(err); f.Code != errcode.BrokerUnavailable || f.RetryAfter != time.Second || f.Message != want || !f.Hides() {
		t.Errorf("%v", err)
	}
}
