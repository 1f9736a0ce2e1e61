// Package audit records operator actions in the stream GENBUS_OPS.
package audit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	defaultPage = 20
	maxPage     = 100
	// maxScan bounds the records read for one page when the filters reject most of them.
	maxScan = 2000
)

// Log stores and lists audit records. All fields are required.
type Log struct {
	Broker *broker.Broker
	Logger *slog.Logger
}

// Record carries out an action and records it. It first stores a record. If that fails, it does not
// carry out the action. After the action, it stores a second record with the outcome and the
// details that do has added. Record returns the error of do, or a *errcode.Error if nothing was
// done.
func (l Log) Record(ctx context.Context, r *genbusv1.AuditRecord, do func(*genbusv1.AuditRecord) error) error {
	r.Time, r.Outcome = timestamppb.Now(), genbusv1.AuditRecord_OUTCOME_BEGUN
	begun, err := l.put(ctx, r)
	switch {
	case errors.Is(err, broker.ErrFull):
		return errcode.New(errcode.StorageFull, "nothing was done: the audit log is full; raise nats.streams.ops.max_bytes").Because(err)
	case err != nil:
		return errcode.New(errcode.BrokerUnavailable, "nothing was done, because the audit log could not record it: %s", broker.Reason(err)).Because(err).WithRetryAfter(time.Second)
	}
	err = do(r)
	r.EndedAt, r.Begun = timestamppb.Now(), begun
	r.Outcome, r.Code = outcome(err)
	if r.GetOutcome() == genbusv1.AuditRecord_OUTCOME_REFUSED && r.GetBulk().GetTotal() > 0 {
		r.Outcome = genbusv1.AuditRecord_OUTCOME_FAILED // the first steps may have taken effect
	}
	if f, ok := errors.AsType[*errcode.Error](err); ok && r.GetOutcome() == genbusv1.AuditRecord_OUTCOME_FAILED && f.JobID != r.GetJobId() {
		r.NewJobId = cmp.Or(r.GetNewJobId(), f.JobID) // the job was or may have been created
	}
	if _, lost := l.put(context.WithoutCancel(ctx), r); lost != nil { // the action took effect even if the caller has left
		l.Logger.WarnContext(ctx, "could not record outcome of operator action",
			telemetry.KeySequence, begun, telemetry.KeyOp, r.GetAction(), telemetry.KeyError, lost)
	}
	return err
}

// partial lists the error codes after which an action may have been done in part or completely.
var partial = []errcode.Code{errcode.AcceptanceUnknown, errcode.Internal, errcode.BrokerUnavailable, errcode.CallerGone, errcode.CallerDeadline}

// outcome returns the outcome and code to record for an action. An error with a code counts as a
// refusal, unless partial lists the code.
func outcome(err error) (genbusv1.AuditRecord_Outcome, string) {
	if err == nil {
		return genbusv1.AuditRecord_OUTCOME_DONE, ""
	}
	var f *errcode.Error
	if !errors.As(err, &f) {
		return genbusv1.AuditRecord_OUTCOME_FAILED, ""
	}
	if slices.Contains(partial, f.Code) {
		return genbusv1.AuditRecord_OUTCOME_FAILED, string(f.Code)
	}
	return genbusv1.AuditRecord_OUTCOME_REFUSED, string(f.Code)
}

func (l Log) put(ctx context.Context, r *genbusv1.AuditRecord) (seq uint64, err error) {
	data, err := proto.Marshal(r)
	if err != nil {
		return 0, fmt.Errorf("encode an audit record: %w", err)
	}
	m := nats.NewMsg(l.subject(r))
	m.Header[subject.HeaderCEDataContentType], m.Data = []string{subject.ContentTypeProtobuf}, data
	ack, err := l.Broker.Publish(ctx, m)
	return ack.Seq, err
}

// subject returns the NATS subject for a record, which identifies the target of the action.
// Operators may mistype names, so an illegal token falls through to the next case.
func (l Log) subject(r *genbusv1.AuditRecord) string {
	names := l.Broker.Names()
	legal := func(tokens ...string) bool {
		for _, t := range tokens {
			if subject.CheckToken(t) != nil {
				return false
			}
		}
		return true
	}
	switch {
	case r.GetBulk() != nil && legal(r.GetAction()):
		return names.AuditBulk(r.GetAction())
	case r.GetJobId() != "" && legal(r.GetKind(), r.GetTenant(), r.GetJobId()):
		return names.AuditJob(subject.Kind(r.GetKind()), r.GetTenant(), r.GetJobId())
	case r.GetRoute() != "" && legal(r.GetKind(), r.GetRoute()):
		return names.AuditRoute(subject.Kind(r.GetKind()), r.GetRoute())
	}
	return names.AuditDeadLetter(strconv.FormatUint(r.GetLetter(), 10))
}

// Query selects records. Empty fields match every record.
type Query struct {
	Operator, Action, JobID, Route, Tenant string
	// DeadLetter is the sequence of a dead letter. Zero matches all.
	DeadLetter uint64
	// Size is the page size. Zero means 20, and values above 100 mean 100.
	Size int
	// Token is the Next of the previous page, or empty.
	Token string
}

// Page holds records, newest first. A short or empty page is not necessarily the last one, because
// one call scans a bounded number of records.
type Page struct {
	Records []*genbusv1.StoredAuditRecord
	Next    string
}

// List returns a page of records.
func (l Log) List(ctx context.Context, q Query) (Page, error) {
	if q.Size < 0 {
		return Page{}, errcode.Invalid([]errcode.Violation{{Field: "page_size", Description: "must not be negative"}})
	}
	size := min(q.Size, maxPage)
	if size == 0 {
		size = defaultPage
	}
	first, before, err := l.bounds(ctx, q.Token)
	if err != nil {
		return Page{}, err
	}
	var page Page
	window := uint64(maxPage)
	if l.pattern(q) != l.Broker.Names().AuditPattern() {
		window = before // the broker skips other subjects
	}
	ended := map[uint64]bool{} // by the sequence of the action's first record
	for scanned := 0; before > first; {
		from := max(before-min(before, window), first)
		records, err := l.between(ctx, l.pattern(q), from, before)
		if err != nil {
			return Page{}, err
		}
		for i := len(records) - 1; i >= 0; i-- {
			r := records[i]
			ended[r.GetRecord().GetBegun()] = true
			if scanned++; !q.wants(r.GetRecord()) || ended[r.GetSequence()] {
				continue
			}
			switch listed, err := l.isListed(ctx, r); {
			case err != nil:
				return Page{}, err
			case listed:
				continue
			}
			page.Records = append(page.Records, r)
			if len(page.Records) == size {
				page.Next = strconv.FormatUint(r.GetSequence(), 10)
				return page, nil
			}
		}
		if before = from; scanned >= maxScan && before > first {
			page.Next = strconv.FormatUint(before, 10)
			return page, nil
		}
	}
	return page, nil
}

// bounds returns the first sequence of the stream and the sequence before which the page begins.
func (l Log) bounds(ctx context.Context, token string) (first, before uint64, err error) {
	if token != "" {
		if before, err = strconv.ParseUint(token, 10, 64); err != nil || before == 0 {
			return 0, 0, errcode.New(errcode.InvalidPageToken, "page_token does not belong to this list; list again without it")
		}
	}
	s, err := l.Broker.Stream(ctx, l.Broker.Names().Ops())
	if err != nil {
		return 0, 0, err
	}
	state := s.CachedInfo().State
	if token == "" || before > state.LastSeq {
		before = state.LastSeq + 1
	}
	return max(state.FirstSeq, 1), before, nil
}

// between reads the records whose sequences lie in [from, before).
func (l Log) between(ctx context.Context, pattern string, from, before uint64) (out []*genbusv1.StoredAuditRecord, err error) {
	for from < before {
		m, err := l.Broker.Next(ctx, l.Broker.Names().Ops(), pattern, from)
		switch {
		case errors.Is(err, broker.ErrNoMessage):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("list audit records: %w", err)
		case m.Seq >= before:
			return out, nil
		}
		r := &genbusv1.AuditRecord{}
		if err := proto.Unmarshal(m.Data, r); err != nil {
			l.Logger.WarnContext(ctx, "could not decode audit record", telemetry.KeySequence, m.Seq, telemetry.KeyError, err)
		} else {
			out = append(out, &genbusv1.StoredAuditRecord{Sequence: m.Seq, Record: r})
		}
		from = m.Seq + 1
	}
	return out, nil
}

// laterRecords is the number of later records on the same subject among which isListed looks for an
// action's outcome. Records of concurrent actions may precede the outcome.
const laterRecords = 20

// isListed reports whether a later record, listed on an earlier page, has the outcome of the
// action.
func (l Log) isListed(ctx context.Context, r *genbusv1.StoredAuditRecord) (bool, error) {
	if r.GetRecord().GetOutcome() != genbusv1.AuditRecord_OUTCOME_BEGUN {
		return false, nil // r has the outcome
	}
	from := r.GetSequence() + 1
	for range laterRecords {
		m, err := l.Broker.Next(ctx, l.Broker.Names().Ops(), l.subject(r.GetRecord()), from)
		if errors.Is(err, broker.ErrNoMessage) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("list audit records: %w", err)
		}
		var later genbusv1.AuditRecord
		if err := proto.Unmarshal(m.Data, &later); err == nil && later.GetBegun() == r.GetSequence() {
			return true, nil
		}
		from = m.Seq + 1
	}
	return false, nil
}

func (q Query) wants(r *genbusv1.AuditRecord) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(q.Tenant, r.GetTenant()) && (q.DeadLetter == 0 || q.DeadLetter == r.GetLetter()) && is(q.Operator, r.GetOperator()) && is(q.Action, r.GetAction()) && is(q.Route, r.GetRoute()) &&
		(is(q.JobID, r.GetJobId()) || q.JobID == r.GetNewJobId())
}

// pattern returns a subject pattern that matches all records of a query.
func (l Log) pattern(q Query) string {
	names := l.Broker.Names()
	if q.DeadLetter != 0 {
		return names.AuditDeadLetter(strconv.FormatUint(q.DeadLetter, 10))
	}
	return names.AuditPattern()
}
