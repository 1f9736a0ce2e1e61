package natsreq

import (
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// FromVideo converts a VideoRequest. It does not set tenant and ingress. It returns an
// *errcode.Error if the message is nil or has no body.
func FromVideo(m *genbusv1.VideoRequest) (admission.Request, error) {
	if m == nil {
		return admission.Request{}, missing()
	}
	d, err := body.Video(m)
	if err != nil {
		return admission.Request{}, bodyFault(err)
	}
	expires, err := expiry(m.GetExpiresAt())
	return admission.Request{
		Kind: subject.Video, RequestID: m.GetRequestId(), Body: d, Labels: m.GetLabels(), ExpiresAt: expires,
		RetryOf: m.GetRetryOf(), Protocol: m.GetProtocol(), Archive: m.Archive, Typed: m.GetVideo(),
	}, err
}

// FromChat converts a ChatRequest, like FromVideo.
func FromChat(m *genbusv1.ChatRequest) (admission.Request, error) {
	if m == nil {
		return admission.Request{}, missing()
	}
	d, err := body.Chat(m)
	if err != nil {
		return admission.Request{}, bodyFault(err)
	}
	expires, err := expiry(m.GetExpiresAt())
	return admission.Request{
		Kind: subject.Chat, RequestID: m.GetRequestId(), Body: d, Labels: m.GetLabels(), ExpiresAt: expires,
		RetryOf: m.GetRetryOf(),
	}, err
}

func missing() error {
	return errcode.Invalid([]errcode.Violation{{Field: "request", Description: "is required"}})
}

func bodyFault(err error) error {
	var field *body.FieldError
	if errors.As(err, &field) {
		return errcode.Invalid([]errcode.Violation{{Field: field.Field, Description: field.Description}})
	}
	return errcode.From(err)
}

// expiry converts a timestamp. nil means that there is no expiry. An invalid timestamp is an error.
func expiry(t *timestamppb.Timestamp) (time.Time, error) {
	if t == nil {
		return time.Time{}, nil
	}
	if err := t.CheckValid(); err != nil {
		return time.Time{}, errcode.Invalid([]errcode.Violation{{Field: "expires_at", Description: "is not a time between the years 1 and 9999"}})
	}
	return t.AsTime(), nil
}
