package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

type upstreamsCommand struct{}

func (upstreamsCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.ListUpstreams(ctx, &genbusv1.ListUpstreamsRequest{})
		if err != nil {
			return answered(err)
		}
		return call.upstreams(answer)
	})
}

type replicasCommand struct{}

func (replicasCommand) Run(ctx context.Context, o *Operator, out io.Writer) error {
	return o.call(ctx, out, func(ctx context.Context, call operatorCall) error {
		answer, err := call.ListReplicas(ctx, &genbusv1.ListReplicasRequest{})
		if err != nil {
			return answered(err)
		}
		return call.replicas(answer)
	})
}

// upstreams prints one line per replica and upstream, and one more for each key if there are
// several. A count appears only on the line of what it counts, so that readers may add them up.
func (p printer) upstreams(m *genbusv1.ListUpstreamsResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	var rows []string
	for _, on := range m.GetUpstreams() {
		u, keys := on.GetUpstream(), on.GetUpstream().GetKeys()
		name, state, held, waiting := u.GetName(), keyState(u, nil), "", ""
		if len(keys) == 1 {
			name, state, held, waiting = upstreamKeyOf(name, keys[0].GetName()), keyState(u, keys[0]), heldWith(keys[0]), fmt.Sprint(keys[0].GetWaiting())
			keys = nil
		}
		rows = append(rows, cells(name, cmp.Or(on.GetAddress(), on.GetReplica()), state, held, waiting,
			share(u.GetCallsFailed(), u.GetCalls()), share(u.GetPollsFailed(), u.GetPolls()), lastFailure(u)))
		for _, k := range keys {
			rows = append(rows, cells(upstreamKeyOf(name, k.GetName()), cmp.Or(on.GetAddress(), on.GetReplica()), keyState(u, k), heldWith(k), fmt.Sprint(k.GetWaiting()), "", "", ""))
		}
	}
	if err := p.table("UPSTREAM\tREPLICA\tSTATE\tHELD\tWAITING\tCALLS FAILED, 5 MIN\tPOLLS FAILED\tLAST FAILURE", rows); err != nil {
		return err
	}
	return p.silent(m.GetSilent())
}

// keyState returns the reason why a key gets no jobs, or "in use" if there is none. Without a key it
// considers only the upstream.
func keyState(u *genbusv1.UpstreamState, k *genbusv1.UpstreamKeyState) string {
	by := ""
	if k.GetHttpStatus() != 0 {
		by = fmt.Sprintf(" (%d)", k.GetHttpStatus())
	}
	switch {
	case u.GetBreaker() == genbusv1.UpstreamState_BREAKER_OPEN:
		return fmt.Sprintf("breaker open, retries in %.0f s", max(time.Until(u.GetOpenUntil().AsTime()).Seconds(), 0))
	case u.GetBreaker() == genbusv1.UpstreamState_BREAKER_HALF_OPEN:
		return "breaker half open"
	case k.GetCooldownUntil() != nil:
		return "key refused" + by + ", last resort until " + moment(k.GetCooldownUntil())
	case k.GetPausedUntil() != nil:
		return "paused" + by + " until " + moment(k.GetPausedUntil())
	case u.GetPausedUntil() != nil:
		return "paused until " + moment(u.GetPausedUntil())
	}
	return "in use"
}

func heldWith(k *genbusv1.UpstreamKeyState) string {
	if k.GetMaxConcurrent() == 0 {
		return fmt.Sprint(k.GetInHand())
	}
	return fmt.Sprintf("%d of %d", k.GetInHand(), k.GetMaxConcurrent())
}

func share(failed, all uint64) string { return fmt.Sprintf("%d of %d", failed, all) }

// lastFailure describes the last failed call or the last failed poll, whichever is later.
func lastFailure(u *genbusv1.UpstreamState) string {
	call, poll := failureLine("", u.GetLastErrorAt(), u.GetLastError()), failureLine("poll: ", u.GetLastPollErrorAt(), u.GetLastPollError())
	if u.GetLastPollErrorAt().AsTime().After(u.GetLastErrorAt().AsTime()) {
		return cmp.Or(poll, call)
	}
	return cmp.Or(call, poll)
}

func failureLine(what string, at *timestamppb.Timestamp, text string) string {
	if at == nil {
		return ""
	}
	return what + text + ", " + moment(at)
}

func (p printer) replicas(m *genbusv1.ListReplicasResponse) error {
	if p.json {
		return p.asJSON(m)
	}
	var rows []string
	for _, r := range m.GetReplicas() {
		state := "serves"
		if r.GetDraining() {
			state = "stops"
		}
		index := "candidate"
		if r.GetIndexReady() {
			index = "has it"
		}
		up := time.Since(r.GetStartedAt().AsTime()).Round(time.Second)
		rows = append(rows, cells(cmp.Or(r.GetAddress(), r.GetHost()), r.GetVersion(), state, up.String(), fmt.Sprint(r.GetHeldJobs()), index, moment(r.GetConfigReadAt()), r.GetId()))
	}
	if err := p.table("REPLICA\tVERSION\tSTATE\tUP FOR\tHOLDS\tINDEX\tCONFIGURATION OF\tID", rows); err != nil {
		return err
	}
	return p.silent(m.GetSilent())
}

func (p printer) silent(replicas []*genbusv1.SilentReplica) error {
	for _, r := range replicas {
		if _, err := fmt.Fprintf(p.out, "no answer from replica %s, last seen %s\n", clean(cmp.Or(r.GetAddress(), r.GetId())), moment(r.GetHeardAt())); err != nil {
			return err
		}
	}
	return nil
}
