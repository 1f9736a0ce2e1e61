package operator

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/telemetry"
)

const (
	// parallel is the number of concurrent steps of an action.
	parallel = 8
	stepTime = 30 * time.Second
	// reportEvery is the interval between progress reports.
	reportEvery = time.Second
	// maxFailures bounds the failures listed in a progress report.
	maxFailures = 10
	// maxFilterJSON bounds the JSON of a filter or list, in bytes. The audit record contains this
	// JSON and must fit into the smallest max_payload.
	maxFilterJSON = 48 << 10
)

// step is an idempotent action on one job or dead letter.
type step struct {
	// Either jobID or deadLetter is set.
	jobID      string
	deadLetter uint64
	// do reports whether it changed the job or dead letter.
	do func(context.Context) (changed bool, err error)
}

// about returns the log attribute that identifies the job or dead letter.
func (s step) about() slog.Attr {
	if s.jobID != "" {
		return slog.String(telemetry.KeyJobID, s.jobID)
	}
	return slog.Uint64(telemetry.KeySequence, s.deadLetter)
}

// work defines a bulk action.
type work struct {
	// existing returns the extent of the jobs or dead letters that exist now.
	existing func(context.Context) (deadletter.Extent, error)
	// count sets the number of steps for an extent in a progress report.
	count func(context.Context, deadletter.Extent, *genbusv1.BulkProgress) error
	// steps returns a page of steps and the cursor of the next page. The cursor is empty after the
	// last page.
	steps func(ctx context.Context, existed deadletter.Extent, cursor string) ([]step, string, error)
}

// Action is a bulk action with a validated request.
type Action struct {
	// Filter is the filter or list of the request as JSON.
	Filter string

	work
	dryRun  bool
	given   string // the request's token; empty in a dry run
	request [8]byte
}

// newAction checks the fields that all requests share and returns the action. asked is the request
// without token, dry_run and everything.
func newAction(m BulkRequest, asked proto.Message, wrong []errcode.Violation, w work) (Action, error) {
	if !isKnown(m.ProtoReflect()) {
		wrong = append(wrong, errcode.Violation{Field: "filter", Description: "has a field that this version of genbus does not know"})
	}
	if m.GetToken() != "" && m.GetDryRun() {
		wrong = append(wrong, errcode.Violation{Field: "token", Description: "must be empty with dry_run, which returns a new one"})
	}
	if m.GetToken() == "" && !m.GetDryRun() {
		wrong = append(wrong, errcode.Violation{Field: "token", Description: "is required: send the same request with dry_run first and use its token"})
	}
	if len(wrong) > 0 {
		return Action{}, errcode.Invalid(wrong)
	}
	a := Action{work: w, dryRun: m.GetDryRun(), given: m.GetToken()}
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(asked)
	if err != nil {
		return Action{}, err
	}
	if len(text) > maxFilterJSON {
		return Action{}, errcode.New(errcode.BodyTooLarge, "the filter or list has %d bytes as JSON; the limit is %d, so split it", len(text), maxFilterJSON)
	}
	a.Filter = string(text)
	a.request, err = hashOf(asked)
	return a, err
}

// Run counts the steps and, unless the action is a dry run, carries them out. It calls report with
// the progress at the start, about once a second and at the end. If report fails or ctx ends, the
// run stops after the steps in progress. Run returns the last progress and, if it stopped early,
// the reason. A stopped run can be continued with the same token.
func (a Action) Run(ctx context.Context, log *slog.Logger, tell func(*genbusv1.BulkProgress) error) (*genbusv1.BulkProgress, error) {
	token, err := a.token(ctx)
	if err != nil {
		return nil, err
	}
	p := &genbusv1.BulkProgress{Token: token.String(), AsOf: timestamppb.New(token.existed.At)}
	if err := a.count(ctx, token.existed, p); err != nil {
		return nil, err
	}
	if a.dryRun {
		return p, tell(p)
	}
	r := run{progress: p, report: tell, log: log}
	if err = r.all(ctx, token.existed, a.steps); err != nil {
		_ = r.reportProgress() // report the last counts if the caller still listens
	}
	return p, err
}

// token returns the request's token or, in a dry run, a new token for the current extent.
func (a Action) token(ctx context.Context) (bulkToken, error) {
	if a.dryRun {
		existing, err := a.existing(ctx)
		return bulkToken{existed: existing, request: a.request}, err
	}
	t, err := parseBulkToken(a.given)
	if err == nil && t.request != a.request {
		err = wrongToken("belongs to a dry run of another action, filter or list")
	}
	return t, err
}

type run struct {
	progress   *genbusv1.BulkProgress
	report     func(*genbusv1.BulkProgress) error
	reportedAt time.Time
	log        *slog.Logger
}

type result struct {
	step    step
	changed bool
	err     error
}

// all carries out the steps page by page.
func (r *run) all(ctx context.Context, existed deadletter.Extent, page func(context.Context, deadletter.Extent, string) ([]step, string, error)) error {
	if err := r.reportProgress(); err != nil {
		return err
	}
	for cursor := ""; ; {
		steps, next, err := page(ctx, existed, cursor)
		if err == nil && time.Since(r.reportedAt) >= reportEvery { // a page may have no steps
			err = r.reportProgress()
		}
		if err == nil {
			err = r.do(ctx, steps)
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		if cursor = next; cursor == "" {
			r.progress.Ended = true
			return r.reportProgress()
		}
	}
}

func (r *run) reportProgress() error {
	r.reportedAt = time.Now()
	return r.report(proto.CloneOf(r.progress))
}

// do carries out steps concurrently and counts their results. It stops early if ctx ends, the
// progress cannot be reported, or the broker is unavailable.
func (r *run) do(ctx context.Context, steps []step) (stopped error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	results := make(chan result)
	go func() {
		defer close(results)
		var group errgroup.Group
		group.SetLimit(parallel)
		for _, s := range steps {
			group.Go(func() error {
				if ctx.Err() == nil {
					changed, err := r.try(ctx, s)
					results <- result{s, changed, err}
				}
				return nil // errors are part of the results
			})
		}
		_ = group.Wait()
	}()
	tick := time.NewTicker(reportEvery)
	defer tick.Stop()
	for {
		var err error
		select {
		case done, more := <-results:
			if !more {
				return stopped
			}
			err = r.add(done)
		case <-tick.C:
			if stopped == nil {
				err = r.reportProgress()
			}
		}
		if err != nil && stopped == nil {
			stopped = err
			stop()
		}
	}
}

// try completes a step even if the run stops. A panic counts as a failure.
func (r *run) try(ctx context.Context, s step) (changed bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			r.log.With(s.about()).Error("panic in bulk action step", telemetry.KeyError, p, "stack", string(debug.Stack()))
			changed, err = false, errcode.New(errcode.Internal, "a bug in genbus stopped this step; see the log")
		}
	}()
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), stepTime,
		errcode.New(errcode.AcceptanceUnknown, "this step took longer than %s; it may have been done", stepTime))
	defer cancel()
	return s.do(ctx)
}

// add counts a step. If the broker is unavailable, add returns an error and does not count the
// step, because the other steps would fail too and a later run repeats this one.
func (r *run) add(done result) error {
	code := codeOf(done.err)
	if code == errcode.BrokerUnavailable {
		return errcode.New(code, "stopped after %d of %d: %s; call again with the same token to continue", r.progress.GetDone(), r.progress.GetTotal(), broker.Reason(done.err)).Because(done.err).WithRetryAfter(time.Second)
	}
	r.progress.Done++
	switch {
	case done.err != nil:
		addFailure(r.progress, done.step, code, done.err)
		r.log.With(done.step.about()).Warn("skipped item in bulk action", telemetry.KeyCode, string(code))
	case done.changed:
		r.progress.Changed++
	}
	return nil
}

// addFailure counts a job or dead letter whose step failed.
func addFailure(p *genbusv1.BulkProgress, s step, code errcode.Code, err error) {
	p.Failed++
	if p.FailedByCode == nil {
		p.FailedByCode = map[string]int64{}
	}
	p.FailedByCode[string(code)]++
	if len(p.GetFailures()) < maxFailures {
		message := err.Error()
		if coded, ok := errors.AsType[*errcode.Error](err); ok {
			message = coded.Message
		}
		p.Failures = append(p.Failures, &genbusv1.BulkFailure{JobId: s.jobID, Letter: s.deadLetter, Code: string(code), Message: message})
	}
}

// codeOf returns the code of a step's error, or an empty code if err is nil.
func codeOf(err error) errcode.Code {
	coded, ok := errors.AsType[*errcode.Error](err)
	switch {
	case err == nil:
		return ""
	case ok:
		return coded.Code
	case errors.Is(err, broker.ErrFull):
		return errcode.StorageFull
	case broker.Unavailable(err):
		return errcode.BrokerUnavailable
	}
	return errcode.From(err).Code
}
