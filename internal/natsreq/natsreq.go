// Package natsreq decodes requests that arrive over NATS. It converts subject, headers and message
// into an admission.Request.
package natsreq

import (
	"cmp"
	"fmt"
	"mime"
	"strings"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Incoming is a request that arrived over NATS.
type Incoming struct {
	// Request is the complete request. If Upload is set, Request contains only kind, tenant,
	// ingress and header values until Uploads.Complete has returned.
	admission.Request
	// Upload locates the complete request. It is nil if the message contains the complete request.
	Upload *Upload
}

// Decode decodes a message on genbus.request.<kind>.<tenant> or genbus.call.<kind>.<tenant>.
// Without a content-type header, or with application/protobuf, data is a genbus.v1.VideoRequest or
// ChatRequest. With application/json it is the body of the HTTP API, kept byte for byte. The
// headers genbus-request-id and genbus-labels add values that a JSON body cannot have. Publishers
// may also set these headers on a Protobuf message, but the headers must not contradict it.
//
// Errors are *errcode.Error. With an error, Decode still returns the kind, tenant and ingress that
// it could read, for the dead letter and the metrics. The tenant is as in the subject and may be
// illegal.
//
// Decode does not read the trace context in the headers.
func Decode(names subject.Space, subj string, header nats.Header, data []byte) (Incoming, error) {
	r, err := parseSubject(names, subj)
	in := Incoming{Request: r}
	if err != nil {
		return in, errcode.Invalid([]errcode.Violation{{Field: "subject", Description: err.Error()}})
	}
	json, err := IsJSON(header)
	if err != nil {
		return in, err
	}
	if json {
		in.Body = body.Parse(data)
		err = fromHeader(&in.Request, header)
		return in, err
	}
	m, err := unmarshal(in.Kind, data)
	if err != nil {
		return in, unreadable(m, data)
	}
	if m.GetStored() != nil {
		in.Upload, err = uploadOf(names.Bodies(in.Tenant), m)
	} else {
		err = in.fill(m)
	}
	if err == nil {
		err = fromHeader(&in.Request, header)
	}
	return in, err
}

// fill copies the request of a message, keeping kind, tenant, ingress and source.
func (in *Incoming) fill(m message) error {
	r, err := requestOf(m)
	if err != nil {
		return err
	}
	r.Kind, r.Tenant, r.Ingress, r.Source = in.Kind, in.Tenant, in.Ingress, in.Source
	in.Request = r
	return nil
}

func parseSubject(names subject.Space, subj string) (admission.Request, error) {
	parse, ingress := names.ParseRequest, telemetry.IngressNATS
	if strings.HasPrefix(subj, names.Prefix()+".call.") {
		parse, ingress = names.ParseCall, telemetry.IngressCall
	}
	kind, tenant, err := parse(subj)
	return admission.Request{Kind: kind, Tenant: tenant, Ingress: ingress}, err
}

// IsJSON reports whether the headers declare data, and therefore the reply, as JSON. It returns an
// *errcode.Error for media types other than JSON and Protobuf.
func IsJSON(header nats.Header) (bool, error) {
	value := get(header, subject.HeaderContentType)
	if value == "" {
		return false, nil
	}
	media, _, err := mime.ParseMediaType(value)
	if err != nil {
		media = value
	}
	switch media {
	case subject.ContentTypeJSON:
		return true, nil
	case subject.ContentTypeProtobuf, "application/x-protobuf", "application/vnd.google.protobuf":
		return false, nil
	}
	return false, errcode.New(errcode.UnsupportedMedia, "content-type %q is not supported; send %s or %s",
		errcode.Clip(value, 64), subject.ContentTypeProtobuf, subject.ContentTypeJSON)
}

// message is a VideoRequest or a ChatRequest.
type message interface {
	proto.Message
	GetStored() *genbusv1.BlobRef
}

// unmarshal returns a message of the right type even with an error.
func unmarshal(kind subject.Kind, data []byte) (message, error) {
	var m message = &genbusv1.VideoRequest{}
	if kind == subject.Chat {
		m = &genbusv1.ChatRequest{}
	}
	return m, proto.Unmarshal(data, m)
}

func requestOf(m message) (admission.Request, error) {
	if chat, ok := m.(*genbusv1.ChatRequest); ok {
		return FromChat(chat)
	}
	video, _ := m.(*genbusv1.VideoRequest)
	return FromVideo(video)
}

// unreadable returns the error for data that is not the expected message. It omits the decoder's
// error, which does not help publishers. The usual mistake is a JSON body without a content-type
// header.
func unreadable(m proto.Message, data []byte) error {
	hint := ""
	if len(data) > 0 && data[0] == '{' {
		hint = fmt.Sprintf("; it looks like JSON, which needs the header %s: %s", subject.HeaderContentType, subject.ContentTypeJSON)
	}
	return errcode.New(errcode.InvalidRequest, "the message is not a %s%s", m.ProtoReflect().Descriptor().FullName(), hint)
}

// Retryable reports whether the same message may be accepted later. That includes an unknown
// acceptance, because the message always names the same job.
func Retryable(f *errcode.Error) bool {
	switch f.Code {
	case errcode.AcceptanceUnknown, errcode.CallerGone, errcode.UpstreamTimeout, errcode.Internal:
		return true
	default:
		return f.Meaning().Retry
	}
}

func fromHeader(r *admission.Request, header nats.Header) error {
	return AddHeaders(r, get(header, subject.HeaderRequestID), get(header, subject.HeaderLabels))
}

// AddHeaders adds the request ID (genbus-request-id on NATS, otherwise Idempotency-Key) and the
// labels from headers to a request. Empty values add nothing. If a header contradicts the message,
// AddHeaders returns an *errcode.Error, because ignoring either value could create a second paid
// job.
func AddHeaders(r *admission.Request, requestID, labels string) error {
	if err := addRequestID(r, requestID); err != nil {
		return err
	}
	parsed, err := ParseLabels(labels)
	if err != nil {
		return err
	}
	return addLabels(r, parsed)
}

func addRequestID(r *admission.Request, requestID string) error {
	if requestID != "" && r.RequestID != "" && requestID != r.RequestID {
		return errcode.Invalid([]errcode.Violation{{Field: "request_id", Description: "differs between the message and the header"}})
	}
	r.RequestID = cmp.Or(r.RequestID, requestID)
	return nil
}

// UseMessageID makes the Nats-Msg-Id of a video its request ID, if it is a legal one and the request
// has no other. It is for calls, where no stream reads this header, after Uploads.Complete.
func (in *Incoming) UseMessageID(header nats.Header) {
	id := get(header, nats.MsgIdHdr)
	if in.Kind == subject.Video && in.RequestID == "" && admission.LegalRequestID(id) {
		in.RequestID = id
	}
}

// get reads a header without regard to letter case, because nats.Header is case-sensitive and some
// clients write Content-Type. The lower-case spelling takes precedence.
func get(header nats.Header, key string) string {
	return telemetry.HeaderCarrier(header).Get(key)
}

func addLabels(r *admission.Request, labels map[string]string) error {
	if len(r.Labels) == 0 {
		r.Labels = labels
		return nil
	}
	for k, v := range labels {
		if old, ok := r.Labels[k]; ok && old != v {
			return invalidLabels("%q differs between the message and the header", errcode.Clip(k, 64))
		}
		r.Labels[k] = v
	}
	return nil
}
