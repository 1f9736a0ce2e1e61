package natsreq_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/natsreq"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

var names = subject.Default()

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	data, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecode(t *testing.T) {
	t.Parallel()
	expires := time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC)
	video := marshal(t, &genbusv1.VideoRequest{
		RequestId: "r1", Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "m", Prompt: "p"}},
		Labels: map[string]string{"a": "b"}, ExpiresAt: timestamppb.New(expires), RetryOf: "old", Protocol: "primary", Archive: proto.Bool(true),
	})
	chat := marshal(t, &genbusv1.ChatRequest{Body: &genbusv1.ChatRequest_RawJson{RawJson: []byte(`{"model": "m"}`)}})
	wholeVideo := admission.Request{
		Kind: subject.Video, Tenant: "acme", Ingress: telemetry.IngressCall, RequestID: "r1", Body: body.Parse([]byte(`{"model":"m","prompt":"p"}`)),
		Labels: map[string]string{"a": "b"}, ExpiresAt: expires, RetryOf: "old", Protocol: "primary", Archive: proto.Bool(true),
		Typed: &genbusv1.VideoGeneration{Model: "m", Prompt: "p"},
	}
	withLabel := wholeVideo
	withLabel.Labels = map[string]string{"a": "b", "c": "d"}
	for name, row := range map[string]struct {
		subject string
		header  nats.Header
		data    []byte
		want    admission.Request
	}{
		"protobuf video": {names.Call(subject.Video, "acme"), nil, video, wholeVideo},
		"protobuf by its media type": {
			names.Call(subject.Video, "acme"), nats.Header{"content-type": {"application/x-protobuf; v=1"}}, video, wholeVideo,
		},
		"protobuf with headers that agree": {
			names.Call(subject.Video, "acme"), nats.Header{"genbus-request-id": {"r1"}, "genbus-labels": {"a=b,c=d"}}, video, withLabel,
		},
		"protobuf chat in the inbox": {
			names.Request(subject.Chat, "acme"), nil, chat,
			admission.Request{Kind: subject.Chat, Tenant: "acme", Ingress: telemetry.IngressNATS, Body: body.Parse([]byte(`{"model": "m"}`))},
		},
		"a message ID in the inbox": {
			names.Request(subject.Video, "acme"), nats.Header{"content-type": {"application/json"}, "Nats-Msg-Id": {"m1"}}, []byte(`{}`),
			admission.Request{Kind: subject.Video, Tenant: "acme", Ingress: telemetry.IngressNATS, Body: body.Parse([]byte(`{}`))},
		},
		"JSON": {
			names.Request(subject.Chat, "acme"),
			nats.Header{"Content-Type": {"application/json; charset=utf-8"}, "genbus-request-id": {"r2"}, "genbus-labels": {" k = v , e%2C=%25"}},
			[]byte(`{ "model":"x" }`),
			admission.Request{
				Kind: subject.Chat, Tenant: "acme", Ingress: telemetry.IngressNATS, RequestID: "r2", Body: body.Parse([]byte(`{ "model":"x" }`)),
				Labels: map[string]string{"k": "v", "e,": "%"},
			},
		},
		"a request id for a message without one": {
			names.Request(subject.Chat, "acme"), nats.Header{"genbus-request-id": {"r3"}}, chat,
			admission.Request{Kind: subject.Chat, Tenant: "acme", Ingress: telemetry.IngressNATS, RequestID: "r3", Body: body.Parse([]byte(`{"model": "m"}`))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := natsreq.Decode(names, row.subject, row.header, row.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got.Request, cmpopts.IgnoreFields(admission.Request{}, "Source"), cmp.AllowUnexported(body.Document{}), protocmp.Transform()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got.Upload != nil {
				t.Error("an upload that nobody named")
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	t.Parallel()
	good := marshal(t, &genbusv1.VideoRequest{RequestId: "r1", Labels: map[string]string{"a": "b"}, Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(`{}`)}})
	for name, row := range map[string]struct {
		subject string
		header  nats.Header
		data    []byte
		want    errcode.Code
		says    string
		tenant  string
	}{
		"an illegal tenant": {"genbus.request.video.a b", nil, good, errcode.InvalidRequest, "legal name", "a b"},
		"of a call":         {"genbus.call.video.a b", nil, good, errcode.InvalidRequest, `subject "genbus.call.video.a b": "a b" is not a legal name`, ""},
		"another subject":   {"genbus.task.video.acme.x", nil, good, errcode.InvalidRequest, "subject", ""},
		"a media type": {
			names.Call(subject.Video, "acme"), nats.Header{"content-type": {"text/html"}}, good, errcode.UnsupportedMedia, "text/html", "acme",
		},
		"JSON without its media type": {names.Call(subject.Video, "acme"), nil, []byte(`{"model":"m"}`), errcode.InvalidRequest, "content-type: application/json", "acme"},
		"no body":                     {names.Call(subject.Chat, "acme"), nil, nil, errcode.InvalidRequest, "body", "acme"},
		"another request id":          {names.Call(subject.Video, "acme"), nats.Header{"genbus-request-id": {"r2"}}, good, errcode.InvalidRequest, "request_id", "acme"},
		"another label":               {names.Call(subject.Video, "acme"), nats.Header{"genbus-labels": {"a=c"}}, good, errcode.InvalidRequest, "labels", "acme"},
		"a time beyond all years": {
			names.Call(subject.Video, "acme"), nil,
			marshal(t, &genbusv1.VideoRequest{Body: &genbusv1.VideoRequest_RawJson{RawJson: []byte(`{}`)}, ExpiresAt: &timestamppb.Timestamp{Nanos: -1}}),
			errcode.InvalidRequest, "expires_at", "acme",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := natsreq.Decode(names, row.subject, row.header, row.data)
			var f *errcode.Error
			if !errors.As(err, &f) || f.Code != row.want || !strings.Contains(f.Message, row.says) {
				t.Fatalf("err %v, want %s with %q", err, row.want, row.says)
			}
			if r.Tenant != row.tenant {
				t.Errorf("tenant %q, want %q for the dead letter", r.Tenant, row.tenant)
			}
		})
	}
}

func TestParseLabels(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]map[string]string{
		"":                nil,
		"  ":              nil,
		"k=v":             {"k": "v"},
		"k=":              {"k": ""},
		"k=a=b, l = c ":   {"k": "a=b", "l": "c"},
		"k=%C3%A4+%2c%25": {"k": "ä+,%"},
	} {
		got, err := natsreq.ParseLabels(value)
		if err != nil {
			t.Errorf("%q: %v", value, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q:\n%s", value, diff)
		}
	}
	for _, value := range []string{"k", "=v", "k=v,", "k=v,k=w", "k=50%", "%=v", strings.Repeat("k=v,", 64) + "l=w"} {
		if got, err := natsreq.ParseLabels(value); errcode.CodeOf(err) != errcode.InvalidRequest {
			t.Errorf("%q gave %v, %v", value, got, err)
		}
	}
}

// FuzzDecode checks that no input panics, that every error has a code, that a JSON body stays
// unchanged, and that references stay within the tenant's uploads.
func FuzzDecode(f *testing.F) {
	f.Add("genbus.call.video.acme", "application/json", "r1", "k=v", []byte(`{"model":"m"}`))
	f.Add("genbus.request.chat.acme", "", "", "", []byte("\x1a\x02{}"))
	f.Add("genbus.request.chat.a b", "application/protobuf", "", "k=%zz", []byte{0xff})
	f.Add("genbus.call.video.acme", "", "r1", "", marshal(f, &genbusv1.VideoRequest{
		RequestId: "r1", Body: &genbusv1.VideoRequest_Video{Video: &genbusv1.VideoGeneration{Model: "m", ExtraJson: []byte(`{"a":1}`)}},
	}))
	for _, m := range []proto.Message{
		storedVideo(ref(func(*genbusv1.BlobRef) {})), storedVideo(ref(func(r *genbusv1.BlobRef) { r.Bucket = names.Bodies("globex") })),
		storedVideo(ref(func(r *genbusv1.BlobRef) { r.Name = "upload-../x" })), storedVideo(ref(func(r *genbusv1.BlobRef) { r.Size = 1 << 63 })), storedVideo(&genbusv1.BlobRef{}),
	} {
		f.Add("genbus.call.video.acme", "", "r1", "k=v", marshal(f, m))
	}
	f.Add("genbus.request.chat.acme", "", "", "", marshal(f, storedChat(ref(func(r *genbusv1.BlobRef) { r.Bucket = names.Bodies("acme") }))))
	f.Fuzz(func(t *testing.T, subj, media, id, labels string, data []byte) {
		header := nats.Header{"content-type": {media}, "genbus-request-id": {id}, "genbus-labels": {labels}}
		r, err := natsreq.Decode(names, subj, header, data)
		var meant *errcode.Error
		if err != nil {
			if !errors.As(err, &meant) || meant.Code == errcode.Internal {
				t.Fatalf("error without a meaning: %v", err)
			}
			return
		}
		if !r.Kind.Valid() || subject.CheckToken(r.Tenant) != nil || r.Ingress == "" {
			t.Fatalf("accepted as %+v", r)
		}
		if json, _ := natsreq.IsJSON(header); json && string(r.Body.Bytes()) != string(data) {
			t.Fatal("the JSON body is not the data")
		}
		if up := r.Upload; up != nil && (up.Object.Bucket != names.Bodies(r.Tenant) || !strings.HasPrefix(up.Object.Name, subject.UploadPrefix) || up.Object.Size > natsreq.MaxUpload) {
			t.Fatalf("the upload %+v", up.Object)
		}
	})
}

// FuzzParseLabels checks that parsed labels have keys, and that other input gives invalid_request.
func FuzzParseLabels(f *testing.F) {
	for _, seed := range []string{"", "k=v", "a=b,c=d", "k=%2C", "k=v,k=v", ",", "=", "%3D=%"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		labels, err := natsreq.ParseLabels(value)
		if err != nil && errcode.CodeOf(err) != errcode.InvalidRequest {
			t.Fatal(err)
		}
		if _, ok := labels[""]; ok {
			t.Fatal("an empty key")
		}
	})
}
