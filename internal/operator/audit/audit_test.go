package audit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/operator/audit"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...)
}

func newLog(t *testing.T, b *broker.Broker) audit.Log {
	t.Helper()
	return audit.Log{Broker: b, Logger: brokertest.Logger(t)}
}

// all reads all pages of a list.
func all(t *testing.T, l audit.Log, q audit.Query) (out []*genbusv1.AuditRecord) {
	t.Helper()
	for {
		page, err := l.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.Records {
			out = append(out, r.GetRecord())
		}
		if q.Token = page.Next; q.Token == "" {
			return out
		}
	}
}

// TestActionsAreRecorded checks that actions are listed with their outcomes, newest first.
func TestActionsAreRecorded(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		l := newLog(t, open(t))
		if got := all(t, l, audit.Query{}); len(got) != 0 {
			t.Errorf("%v", got)
		}
		refused := errcode.New(errcode.NotTerminal, "not yet")
		broken := errors.New("broken")
		for i, row := range []struct {
			record  *genbusv1.AuditRecord
			err     error
			outcome genbusv1.AuditRecord_Outcome
			code    string
		}{
			{&genbusv1.AuditRecord{Operator: "ann", Action: "PauseRoute", Kind: "video", Route: "film"}, nil, genbusv1.AuditRecord_OUTCOME_DONE, ""},
			{&genbusv1.AuditRecord{Operator: "bob", Action: "EraseJob", Kind: "video", Tenant: "acme", JobId: "video_1"}, refused, genbusv1.AuditRecord_OUTCOME_REFUSED, "not_terminal"},
			{&genbusv1.AuditRecord{Operator: "bob", Action: "DropDeadLetter", Letter: 7}, broken, genbusv1.AuditRecord_OUTCOME_FAILED, ""},
			{&genbusv1.AuditRecord{Operator: "ann", Action: "ResumeRoute", Kind: "audio", Route: "no token.>"}, errcode.New(errcode.AcceptanceUnknown, "?"), genbusv1.AuditRecord_OUTCOME_FAILED, "acceptance_unknown"},
		} {
			err := l.Record(t.Context(), row.record, func(r *genbusv1.AuditRecord) error {
				before := all(t, l, audit.Query{Size: 1})
				if len(before) != i+1 || before[0].GetOutcome() != genbusv1.AuditRecord_OUTCOME_BEGUN || before[0].GetAction() != r.GetAction() || before[0].GetEndedAt() != nil {
					t.Errorf("while it is done the records are %v", before)
				}
				return row.err
			})
			if !errors.Is(err, row.err) {
				t.Errorf("%v, want %v", err, row.err)
			}
			got := all(t, l, audit.Query{Size: 2})
			if len(got) != i+1 || got[0].GetOutcome() != row.outcome || got[0].GetCode() != row.code || !got[0].GetEndedAt().IsValid() || !got[0].GetTime().IsValid() {
				t.Errorf("%v", got)
			}
		}
		for q, want := range map[audit.Query]int{
			{Operator: "ann"}: 2, {Action: "DropDeadLetter"}: 1, {JobID: "video_1"}: 1, {Route: "film"}: 1, {DeadLetter: 7}: 1, {Tenant: "acme"}: 1, {DeadLetter: 8}: 0, {Operator: "ann", JobID: "video_1"}: 0,
		} {
			if got := all(t, l, q); len(got) != want {
				t.Errorf("%+v: %v", q, got)
			}
		}
	})
}

// TestManyRecordsAreListed checks that pages list each record once, even if the filter rejects most
// records.
func TestManyRecordsAreListed(t *testing.T) {
	t.Parallel()
	l := newLog(t, brokertest.Single(t))
	for i := range 250 {
		r := &genbusv1.AuditRecord{Operator: "ann", Action: "CancelJob", Kind: "video", Tenant: "acme", JobId: fmt.Sprint("video_", i), RequestId: fmt.Sprint(i)}
		if i%100 == 3 {
			r.Operator = "bob"
		}
		if err := l.Record(t.Context(), r, func(*genbusv1.AuditRecord) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	got := all(t, l, audit.Query{Size: 7})
	if len(got) != 250 {
		t.Fatalf("%d records", len(got))
	}
	for i, r := range got {
		if r.GetRequestId() != fmt.Sprint(249-i) {
			t.Fatalf("record %d is %v", i, r)
		}
	}
	if got := all(t, l, audit.Query{Operator: "bob", Size: 1}); len(got) != 3 {
		t.Errorf("%v", got)
	}
	for _, q := range []audit.Query{{Token: "x"}, {Token: "0"}, {Size: -1}} {
		if _, err := l.List(t.Context(), q); errcode.CodeOf(err) != errcode.InvalidPageToken && errcode.CodeOf(err) != errcode.InvalidRequest {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

// TestNothingIsDoneWithoutARecord checks that an action is refused if the stream is full or
// missing.
func TestNothingIsDoneWithoutARecord(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	l := newLog(t, b)
	act := func() error {
		return l.Record(t.Context(), &genbusv1.AuditRecord{Operator: "ann", Action: "CancelJob"}, func(*genbusv1.AuditRecord) error {
			t.Error("it was done")
			return nil
		})
	}
	s, err := b.JetStream().Stream(t.Context(), b.Names().Ops())
	if err != nil {
		t.Fatal(err)
	}
	full := s.CachedInfo().Config
	full.MaxMsgs = 1
	if _, err := b.JetStream().UpdateStream(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	if _, err := b.JetStream().Publish(t.Context(), b.Names().AuditDeadLetter("1"), nil); err != nil {
		t.Fatal(err)
	}
	if err := act(); errcode.CodeOf(err) != errcode.StorageFull {
		t.Errorf("a full stream: %v", err)
	}
	if err := b.JetStream().DeleteStream(t.Context(), b.Names().Ops()); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatal(err)
	}
	if err := act(); errcode.CodeOf(err) != errcode.BrokerUnavailable {
		t.Errorf("no stream: %v", err)
	}
}

// TestADisconnectedCallerIsRecorded checks that the outcome is recorded after the caller has left.
func TestADisconnectedCallerIsRecorded(t *testing.T) {
	t.Parallel()
	l := newLog(t, brokertest.Single(t))
	ctx, leave := context.WithCancel(t.Context())
	err := l.Record(ctx, &genbusv1.AuditRecord{Operator: "ann", Action: "PauseRoute", Kind: "video", Route: "film"}, func(*genbusv1.AuditRecord) error {
		leave()
		return nil
	})
	if got := all(t, l, audit.Query{}); err != nil || len(got) != 1 || got[0].GetOutcome() != genbusv1.AuditRecord_OUTCOME_DONE {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAJobOfAnActionThatFailedIsRecorded checks that a failed action records the job it made, and a
// refused one does not.
func TestAJobOfAnActionThatFailedIsRecorded(t *testing.T) {
	t.Parallel()
	l := newLog(t, brokertest.Single(t))
	for code, want := range map[errcode.Code]string{errcode.BrokerUnavailable: "video_1", errcode.DeadLetterResolved: ""} {
		err := l.Record(t.Context(), &genbusv1.AuditRecord{Action: "RedriveDeadLetter", Letter: 7}, func(*genbusv1.AuditRecord) error {
			return errcode.New(code, "job video_1").ForJob("video_1")
		})
		if got := all(t, l, audit.Query{Size: 1}); errcode.CodeOf(err) != code || got[0].GetNewJobId() != want {
			t.Errorf("%s: %v, %v", code, got[0], err)
		}
	}
}

// TestABulkActionThatStoppedIsRecorded checks that a bulk action that stopped after counting counts
// as failed, not as refused.
func TestABulkActionThatStoppedIsRecorded(t *testing.T) {
	t.Parallel()
	l := newLog(t, brokertest.Single(t))
	for total, want := range map[int64]genbusv1.AuditRecord_Outcome{0: genbusv1.AuditRecord_OUTCOME_REFUSED, 3: genbusv1.AuditRecord_OUTCOME_FAILED} {
		err := l.Record(t.Context(), &genbusv1.AuditRecord{Action: "CancelJobs", Bulk: &genbusv1.BulkAction{Token: "t"}}, func(r *genbusv1.AuditRecord) error {
			r.Bulk.Total = total
			return errcode.New(errcode.IndexCatchingUp, "not yet")
		})
		got := all(t, l, audit.Query{Action: "CancelJobs", Size: 1})
		if errcode.CodeOf(err) != errcode.IndexCatchingUp || got[0].GetOutcome() != want || got[0].GetBulk().GetToken() != "t" || got[0].GetBulk().GetTotal() != total {
			t.Errorf("%v, %v", got[0], err)
		}
	}
}
