package pool

import (
	"bytes"
	"context"
	"time"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/telemetry"
	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat"
)

// usageOption tells whether an upstream accepts requests for token usage. Strict servers refuse
// members that they do not know.
type usageOption int

const (
	usageUnknown usageOption = iota
	usageAccepted
	usageRefused
)

// askForUsage makes a call that also asks for token usage. If that is refused, it repeats the call
// without the option, and the pool does not ask this upstream again until the next reload. A call
// that may have been processed, such as one that got a 500, is not repeated. Unless the refusal is
// certainly about the option, it counts only if the repeated call succeeds, because a message may
// quote the prompt. One that names no cause counts only while it is unknown whether the upstream
// accepts such requests.
func (a *attempt) askForUsage(ctx context.Context, sent body.Document, call func(*attempt) error) error {
	known := a.slot.usageOption()
	asking := chat.AskForUsage(sent).Bytes()
	if known == usageRefused || bytes.Equal(asking, a.request.Body) {
		return call(a)
	}
	plain := a.request.Body
	a.request.Body = asking
	err := call(a)
	if err == nil {
		a.slot.setUsageOption(usageAccepted, a.job, nil)
		return nil
	}
	refusal := upstream.AsError(opChat, err)
	sure, named, maybe := chat.BlamesUsage(refusal)
	refused := notBegun(refusal) || named && refusal.HTTPStatus/100 == 4
	if sure {
		a.slot.setUsageOption(usageRefused, a.job, refusal)
	}
	if ctx.Err() != nil || !refused || !named && (!maybe || known == usageAccepted) {
		return err
	}
	a.measure("failed", refusal.HTTPStatus)
	a.slot.countResend()
	a.request.Body, a.begin = plain, time.Now()
	if err = call(a); err == nil {
		a.slot.setUsageOption(usageRefused, a.job, refusal)
	}
	return err
}

func (s *Slot) usageOption() usageOption {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.service.usage
}

// setUsageOption remembers and logs what an upstream accepts. It logs only the status and code of
// the refusal, because its text may repeat a prompt.
func (s *Slot) setUsageOption(o usageOption, job Job, refusal *upstream.Error) {
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.service.usage != o && o == usageRefused {
		s.service.logger.Warn("stopped asking upstream for token usage", telemetry.KeyUpstream, s.id.Upstream, telemetry.KeyJobID, job.ID, telemetry.KeyTenant, job.Tenant,
			telemetry.KeyError, refusal.Outline())
	}
	s.service.usage = o
}
