package service

import (
	"context"
	"net"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/admission"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/telemetry"
)

// newFleet creates this replica's fleet member, which joins the fleet when started. A replica with
// an embedded broker is alone.
func (s *Service) newFleet(host string) *fleet.Member {
	_, port, _ := net.SplitHostPort(s.httpAddr.Addr().String()) // a TCP address always has a port
	address := net.JoinHostPort(host, port)
	return fleet.New(fleet.Options{
		Conn: s.broker.Conn(), Names: s.broker.Names(), Logger: s.log, Self: s.parts.Log.Writer(), Host: host, Address: address, Alone: s.cfg.NATS.Embedded(),
		Held: func(id string) *genbusv1.HeldJob { return s.consumer.HeldJob(id) },
		State: func() *genbusv1.ReplicaState {
			return &genbusv1.ReplicaState{
				Id: s.parts.Log.Writer(), Host: host, Address: address, Version: s.version, StartedAt: timestamppb.New(s.started), ConfigReadAt: timestamppb.New(time.Unix(0, s.configRead.Load())),
				Draining: s.stopping.Load(), HeldJobs: uint64(s.consumer.Held()), IndexReady: s.parts.Index.Ready(), Upstreams: upstreamStates(s.routes.Upstreams()),
				Refusals: refusalsOf(s.parts.Admission), FailedChecks: failedChecks(s.health.Failing()),
			}
		},
	})
}

// joinFleet starts exchanging state with other replicas. It runs before the consumer starts, so
// that the first job can benefit from the other replicas' answers to Share, which arrive within
// milliseconds.
func (s *Service) joinFleet(ctx context.Context) error {
	if s.cfg.NATS.Embedded() {
		return nil
	}
	unshare, err := s.routes.Share(s.broker.Conn(), s.broker.Names().Upstreams(), s.parts.Log.Writer())
	if err != nil {
		return err
	}
	s.leaveFleet = unshare
	leave, err := s.fleet.Start(context.WithoutCancel(ctx))
	if err != nil {
		return err
	}
	s.leaveFleet = func() { leave(); unshare() }
	return nil
}

// maxRefused limits the number of tenants whose refusals are reported.
const maxRefused = 100

// refusalsOf returns how many requests of each tenant this replica refused in the last hour because
// of tenant limits.
func refusalsOf(adm *admission.Admission) (out []*genbusv1.TenantRefusals) {
	for _, r := range adm.Refusals(maxRefused) {
		out = append(out, &genbusv1.TenantRefusals{Tenant: r.Tenant, LastHour: r.Count})
	}
	return out
}

func failedChecks(failing []telemetry.Failure) (out []*genbusv1.FailedCheck) {
	for _, f := range failing {
		out = append(out, &genbusv1.FailedCheck{Check: f.Check, Reason: f.Reason.Reason, Since: moment(f.Since)})
	}
	return out
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

var breakers = map[string]genbusv1.UpstreamState_Breaker{
	pool.BreakerClosed:   genbusv1.UpstreamState_BREAKER_CLOSED,
	pool.BreakerOpen:     genbusv1.UpstreamState_BREAKER_OPEN,
	pool.BreakerHalfOpen: genbusv1.UpstreamState_BREAKER_HALF_OPEN,
}

func upstreamStates(states []pool.UpstreamState) (out []*genbusv1.UpstreamState) {
	for _, u := range states {
		state := &genbusv1.UpstreamState{
			Name: u.Name, Breaker: breakers[u.Breaker], BreakerSince: moment(u.Since), OpenUntil: moment(u.Until), PausedUntil: moment(u.PausedUntil),
			Calls: uint64(u.Calls), CallsFailed: uint64(u.Failed), LastError: u.LastError, LastErrorAt: moment(u.LastErrorAt),
			Polls: uint64(u.Polls), PollsFailed: uint64(u.PollsFailed), LastPollError: u.LastPollError, LastPollErrorAt: moment(u.LastPollErrorAt),
		}
		for _, k := range u.Keys {
			state.Keys = append(state.Keys, &genbusv1.UpstreamKeyState{
				Name: k.Name, InHand: uint64(k.InUse), MaxConcurrent: uint64(k.MaxInUse), Waiting: uint64(k.Queued),
				PausedUntil: moment(k.PausedUntil), CooldownUntil: moment(k.CooldownUntil), RefusedSince: moment(k.RefusedSince), HttpStatus: int32(k.Status),
			})
		}
		out = append(out, state)
	}
	return out
}

// moment converts t to a timestamp. It returns nil for the zero time.
func moment(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
