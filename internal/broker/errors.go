package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// These errors classify failed publishes. After ErrNoAnswer, the message may be stored. After the
// others, it is not.
var (
	// ErrWrongSequence means that the subject's last sequence is not the expected one (10071).
	ErrWrongSequence = errors.New("the subject's last sequence differs")
	// ErrInFlight means that another write to the subject is in flight (10164, 10158).
	ErrInFlight = errors.New("another write on the subject is in flight")
	// ErrFull means that the stream or subject is full (10077).
	ErrFull = errors.New("the stream is full")
	// ErrStorage means that the storage of the server or the account is used up. It is always
	// joined with ErrFull.
	ErrStorage = errors.New("JetStream storage is full")
	// ErrAccountLimit means that a limit of the NATS account was reached. Retrying is pointless
	// until an operator raises it.
	ErrAccountLimit = errors.New("a NATS account limit forbids it")
	// ErrTooLarge means that the message exceeds a size limit.
	ErrTooLarge = errors.New("the message is too large")
	// ErrRefused means that the server refused the message for another reason.
	ErrRefused = errors.New("the server refused the message")
	// ErrNoAnswer means that the message may or may not be stored.
	ErrNoAnswer = errors.New("no answer from JetStream")
	// ErrUnavailable means that the message did not reach a stream.
	ErrUnavailable = errors.New("JetStream is unavailable")

	errNotConnected = errors.New("not connected to NATS")
)

var (
	// ErrBodyLost means that a stored body is missing or damaged.
	ErrBodyLost = errors.New("the stored body is missing or damaged")
	// ErrBodyTooLarge means that a body exceeds the caller's limit.
	ErrBodyTooLarge = errors.New("the body is too large")
)

const (
	codeWrongSequence         jetstream.ErrorCode = 10071
	codeWrongSequenceConstant jetstream.ErrorCode = 10164
	codeInFlight              jetstream.ErrorCode = 10158
	codeNoLeader              jetstream.ErrorCode = 10008
	codeNotLeader             jetstream.ErrorCode = 10009
	codeTooLarge              jetstream.ErrorCode = 10054
	// The stream or subject is full, or the server has no storage left. A batch refused with one of
	// these codes stored nothing.
	codeStoreFailed           jetstream.ErrorCode = 10077
	codeInsufficientResources jetstream.ErrorCode = 10023
)

// storageUsedUp lists the error codes of a server or account that has no disk space or memory left.
// The server stored nothing.
var storageUsedUp = []jetstream.ErrorCode{10002, codeInsufficientResources, 10028, 10047}

// accountLimits lists the error codes for account limits: the number of streams, a required
// max_bytes, and the largest max_bytes.
var accountLimits = []jetstream.ErrorCode{10027, 10113, 10122}

// leaderless lists the error codes that may disappear with the next election or when a node
// returns: no leader, not the leader, too few peers online, stream offline, and consumer offline.
var leaderless = []jetstream.ErrorCode{10005, codeNoLeader, codeNotLeader, 10118, 10119}

// Classify joins one of the errors above to a publish error. It uses ErrUnavailable if no stream
// responded or if the client did not send the message because it was closed or disconnected.
func Classify(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return classifyAPI(api)
	}
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return errors.Join(ErrTooLarge, err)
	case errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders), errors.Is(err, errNotSent),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrReconnectBufExceeded):
		return errors.Join(ErrUnavailable, err)
	default:
		return errors.Join(ErrNoAnswer, err)
	}
}

func classifyAPI(api *jetstream.APIError) error {
	switch api.ErrorCode {
	case codeWrongSequence:
		return errors.Join(ErrWrongSequence, api)
	case codeWrongSequenceConstant, codeInFlight:
		return errors.Join(ErrInFlight, api)
	case codeStoreFailed:
		switch {
		case isLimit(api):
			return errors.Join(ErrFull, api)
		case strings.HasSuffix(api.Description, "closed"): // stream is stopping; message may be stored
			return errors.Join(ErrNoAnswer, api)
		default:
			return errors.Join(ErrStorage, ErrFull, api) // full or failing disk
		}
	case codeTooLarge:
		return errors.Join(ErrTooLarge, api)
	}
	switch {
	case slices.Contains(storageUsedUp, api.ErrorCode):
		return errors.Join(ErrStorage, ErrFull, api)
	case slices.Contains(accountLimits, api.ErrorCode):
		return errors.Join(ErrAccountLimit, api)
	}
	// After any other 5xx (no quorum, shutting down, overrun), the proposal may or may not have
	// been applied.
	if api.Code >= 500 {
		return errors.Join(ErrNoAnswer, api)
	}
	if slices.Contains(leaderless, api.ErrorCode) { // "no suitable peers" for a new stream is a 400
		return errors.Join(ErrUnavailable, api)
	}
	return errors.Join(ErrRefused, api)
}

// isLimit reports whether a stream limit caused the refusal. nats-server uses the same code for
// limits and for write errors (2.15.2, store.go).
func isLimit(api *jetstream.APIError) bool {
	return strings.HasPrefix(api.Description, "maximum ") || strings.HasPrefix(api.Description, "message too large")
}

// Permanent reports whether retrying a write is pointless until an operator changes a limit.
func Permanent(err error) bool {
	return errors.Is(err, ErrTooLarge) || errors.Is(err, ErrRefused) || errors.Is(err, ErrAccountLimit)
}

// Unavailable reports whether err means that JetStream is unusable at the moment, rather than that
// the call was wrong. err may come from this package or from the client library.
func Unavailable(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code >= 500 {
		return true
	}
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNoAnswer) || passing(err)
}

// CutOff reports whether err means only that a deadline passed and is no evidence of a problem with
// JetStream or the connection. The caller must know whose deadline it was.
func CutOff(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &api) && !unconnected(err)
}

// Reason describes err in one line for callers of genbus. It omits stream names and repetitions.
// Log err itself.
func Reason(err error) string {
	switch {
	case errors.Is(err, ErrStorage):
		return "JetStream storage, or its account's, is full"
	case errors.Is(err, ErrAccountLimit):
		return "a NATS account limit forbids it: " + text(err)
	case errors.Is(err, ErrFull):
		return "JetStream is full"
	case errors.Is(err, ErrTooLarge):
		return "the message is too large for JetStream"
	case isAny(err, errNotConnected, nats.ErrDisconnected, nats.ErrConnectionClosed, nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting):
		return "JetStream is unavailable: not connected to NATS"
	case isAny(err, ErrNoAnswer, context.DeadlineExceeded, nats.ErrTimeout):
		return "JetStream is unavailable: no answer in time"
	default:
		return "JetStream is unavailable"
	}
}

func text(err error) string {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.Description
	}
	return err.Error()
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// errBeingCreated reports a stream that another replica is creating: the servers refuse its name, but
// do not show it yet.
var errBeingCreated = errors.New("another replica is creating the stream")

// passing reports whether the next election or connection may resolve err.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return slices.Contains(leaderless, api.ErrorCode)
	}
	return errors.Is(err, errBeingCreated) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || unconnected(err)
}

// isElecting reports whether JetStream refused because the stream is electing its leader.
func isElecting(err error) bool { return hasCode(err, codeNoLeader) || hasCode(err, codeNotLeader) }

// unconnected reports whether there was no connection or no responder. Without a connection, the
// client refuses to send, because it has no buffer.
func unconnected(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrDisconnected) ||
		errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, nats.ErrConnectionReconnecting)
}

func hasCode(err error, code jetstream.ErrorCode) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.ErrorCode == code
}

func wrapf(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
