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

// The answers to a publish that are no success. Everything else that Publish
// returns means that there was no answer: the message may be stored or not.
var (
	// ErrWrongSequence: the expected last sequence was not the last (10071).
	ErrWrongSequence = errors.New("the subject's last sequence differs")
	// ErrInFlight: another write on the subject is under way (10164, 10158).
	ErrInFlight = errors.New("another write on the subject is in flight")
	// ErrFull: the stream, or the subject, is full (10077).
	ErrFull = errors.New("the stream is full")
	// ErrStorage: the storage of the server, or of its account, is used up. It is ErrFull too.
	ErrStorage = errors.New("JetStream storage is full")
	// ErrAccountLimit: a limit of the NATS account forbids it, until an operator raises that.
	ErrAccountLimit = errors.New("a NATS account limit forbids it")
	// ErrTooLarge: the message exceeds a size limit; it was not stored.
	ErrTooLarge = errors.New("the message is too large")
	// ErrRefused: the server refused for another reason; it was not stored.
	ErrRefused = errors.New("the server refused the message")
	// ErrNoAnswer: it is not known whether the message is stored.
	ErrNoAnswer = errors.New("no answer from JetStream")
	// ErrUnavailable: the message certainly did not reach a stream.
	ErrUnavailable = errors.New("JetStream is unavailable")

	errNotConnected = errors.New("not connected to NATS")
)

var (
	// ErrBodyLost says that a stored body is gone or damaged.
	ErrBodyLost = errors.New("the stored body is missing or damaged")
	// ErrBodyTooLarge says that a body is larger than the caller allows.
	ErrBodyTooLarge = errors.New("the body is too large")
)

const (
	codeWrongSequence         jetstream.ErrorCode = 10071
	codeWrongSequenceConstant jetstream.ErrorCode = 10164
	codeInFlight              jetstream.ErrorCode = 10158
	codeNoLeader              jetstream.ErrorCode = 10008
	codeNotLeader             jetstream.ErrorCode = 10009
	codeTooLarge              jetstream.ErrorCode = 10054
	// A stream or a subject that is full, and a server whose storage is used up: of a batch nothing
	// was stored then either.
	codeStoreFailed           jetstream.ErrorCode = 10077
	codeInsufficientResources jetstream.ErrorCode = 10023
)

// storageUsedUp are the refusals of a server, or an account, whose bytes on disk or in memory are
// used up. Nothing was stored.
var storageUsedUp = []jetstream.ErrorCode{10002, codeInsufficientResources, 10028, 10047}

// accountLimits are the refusals that the account's limits ask for: the number of streams, that
// each has max_bytes, and how many bytes these may be.
var accountLimits = []jetstream.ErrorCode{10027, 10113, 10122}

// leaderless are the refusals that end with the next election, or when a node is
// back: there is no leader, this server is not the one, too few peers are online,
// or the stream or consumer is not served just now.
var leaderless = []jetstream.ErrorCode{10005, codeNoLeader, codeNotLeader, 10118, 10119}

// Classify gives an error of any publish, synchronous or not, one of the meanings
// above. No responders means that no stream listened; a closed or disconnected
// client that refused to send stored nothing either.
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
		case strings.HasSuffix(api.Description, "closed"): // the stream stops, and the message may be stored
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
	// 5xx without a listed code (no quorum, shutting down, overrun): whether the
	// proposal went through is not said.
	if api.Code >= 500 {
		return errors.Join(ErrNoAnswer, api)
	}
	if slices.Contains(leaderless, api.ErrorCode) { // "no suitable peers" for a new stream is a 400
		return errors.Join(ErrUnavailable, api)
	}
	return errors.Join(ErrRefused, api)
}

// isLimit reports whether a stream limit caused the refusal. nats-server uses the same code for limits
// and write errors (2.15.2, store.go).
func isLimit(api *jetstream.APIError) bool {
	return strings.HasPrefix(api.Description, "maximum ") || strings.HasPrefix(api.Description, "message too large")
}

// Permanent reports whether retrying a write is pointless until an operator changes a limit.
func Permanent(err error) bool {
	return errors.Is(err, ErrTooLarge) || errors.Is(err, ErrRefused) || errors.Is(err, ErrAccountLimit)
}

// Unavailable reports whether an error of any call of JetStream, this package's or
// the client's own, says that it cannot be used now, rather than that the call was
// wrong.
func Unavailable(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) && api.Code >= 500 {
		return true
	}
	return errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNoAnswer) || passing(err)
}

// CutOff reports whether an error of such a call says no more than that a deadline
// passed: nothing was heard that would be JetStream's trouble, or the connection's.
// Whose deadline it was is for the caller to know.
func CutOff(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &api) && !unconnected(err)
}

// Reason is why a call of JetStream failed, in one line for the caller of genbus: it
// names no stream and says nothing twice. The error itself is for the log.
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

// text is what JetStream says.
func text(err error) string {
	if api, ok := errors.AsType[*jetstream.APIError](err); ok {
		return api.Description
	}
	return err.Error()
}

func isAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// passing reports whether an error may be gone with the next election, or with the
// next connection.
func passing(err error) bool {
	var api *jetstream.APIError
	if errors.As(err, &api) {
		return slices.Contains(leaderless, api.ErrorCode)
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || unconnected(err)
}

// isElecting reports whether JetStream refused because a stream elects its leader.
func isElecting(err error) bool { return hasCode(err, codeNoLeader) || hasCode(err, codeNotLeader) }

// unconnected reports whether there was no connection: a request without one
// is refused by the NATS client itself, as nothing is buffered.
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
