package operator

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/plural"
	"github.com/genbus/genbus/internal/subject"
)

// consolePath is the path of the console, below which its views are.
const consolePath = "/console"

// Limits from which something needs attention, as documented in operator_attention.proto.
const (
	indexPatience = 2 * time.Minute
	// replicaPatience exceeds the interval of overviews, whose answers count as heard.
	replicaPatience = 3 * time.Second
	nearlyFull      = 0.8
	storeFilling    = 0.9
)

// findings derives what needs attention. Its methods write the sentences that the API, the commands
// and the console show.
type findings struct {
	*facts
	*fills
	orphans []*genbusv1.OrphanedRoute
	config  *config.Config
}

// sighting is what replicas report about one thing.
type sighting struct {
	replicas []*genbusv1.ReplicaState
	since    *timestamppb.Timestamp // the earliest one; nil if a replica does not know it
}

func (s *sighting) add(r *genbusv1.ReplicaState, since *timestamppb.Timestamp) {
	switch {
	case len(s.replicas) == 0:
		s.since = since
	case s.since != nil && (since == nil || bySince(since, s.since) < 0):
		s.since = since
	}
	s.replicas = append(s.replicas, r)
}

// share returns " on 2 of 3 replicas", or "" if there is only one.
func (s *sighting) share(all []*genbusv1.ReplicaState) string {
	if len(all) == 1 {
		return ""
	}
	return fmt.Sprintf(" on %d of %d replicas", len(s.replicas), len(all))
}

// checkActions are the actions for the failed checks of a replica. Checks of newer replicas have
// none.
var checkActions = map[string]struct{ action, command, view string }{
	"jetstream": {"Bring the NATS servers back; most of them must run. Replicas need no restart.", "nats stream report", "/streams"},
	"store":     {"Free space on the disk of the NATS server (nats.data_dir if it is embedded), or replace the disk.", "nats server report jetstream", "/streams"},
	"clock":     {"Set the clock. Replicas need no restart.", "genbus operator replicas", "/replicas"},
	"task_log": {
		"On all replicas, raise nats.streams.tasks.max_bytes or lower its max_age, and restart them one at a time.", "genbus operator streams", "/streams",
	},
}

func (f findings) notReady() (out []*genbusv1.Attention) {
	seen, reasons := map[string]*sighting{}, map[string]string{}
	for _, r := range f.replicas {
		for _, c := range r.GetFailedChecks() {
			if seen[c.GetCheck()] == nil {
				seen[c.GetCheck()], reasons[c.GetCheck()] = &sighting{}, c.GetReason()
			}
			seen[c.GetCheck()].add(r, c.GetSince())
		}
	}
	for check, s := range seen {
		who := "No replica accepts jobs"
		if len(s.replicas) < len(f.replicas) {
			var hosts []string
			for _, r := range s.replicas {
				hosts = append(hosts, cmp.Or(r.GetAddress(), r.GetId()))
			}
			who = fmt.Sprintf("%d of %d replicas (%s) %s no jobs", len(s.replicas), len(f.replicas), strings.Join(hosts, ", "), plural.Form(len(s.replicas), "accepts", "accept"))
		}
		a := checkActions[check]
		out = append(out, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_NOT_READY, Subject: "check " + check, Since: s.since,
			Affects: fmt.Sprintf("%s: %s. Inline chats continue.", who, reasons[check]),
			Action:  cmp.Or(a.action, "Look up the check in the runbook of the alert GenbusNotReady."),
			Command: cmp.Or(a.command, "genbus operator replicas"), Console: consolePath + cmp.Or(a.view, "/replicas"),
		})
	}
	return out
}

// withoutIndex reports whether no replica has the index ready. The error of the index does not prove
// it: a replica that has just started does not know yet whom to ask.
func (f findings) withoutIndex() bool {
	return errors.Is(f.noIndex, jobindex.ErrCatchingUp) && !slices.ContainsFunc(f.replicas, (*genbusv1.ReplicaState).GetIndexReady)
}

func (f findings) indexNotReady(now time.Time) []*genbusv1.Attention {
	old := slices.ContainsFunc(f.replicas, func(r *genbusv1.ReplicaState) bool { return now.Sub(r.GetStartedAt().AsTime()) >= indexPatience })
	if !old || !f.withoutIndex() {
		return nil
	}
	return []*genbusv1.Attention{{
		Reason: genbusv1.Attention_REASON_INDEX_NOT_READY, Subject: "job index",
		Affects: fmt.Sprintf("None of %s has read the job log completely. Lists fail, max_jobs is enforced only approximately, and jobs that no replica holds do not end at their deadlines.",
			plural.Count(len(f.replicas), "replica")),
		Action:  "If it stays, search the logs of the replicas for \"could not read job index from log\", and check that not every replica has the setting index: off.",
		Command: "genbus operator replicas", Console: consolePath + "/replicas",
	}}
}

// wordDead is the streamWord of the stream of dead letters.
const wordDead = "dead"

// streamWord returns the word for a stream in its name and in its configuration keys, such as
// "dead" for GENBUS_DEAD.
func streamWord(name string) string {
	return strings.ToLower(name[strings.LastIndexByte(name, '_')+1:])
}

// whenFull says what a full stream leads to, by streamWord. limit is the configuration key of its
// limit.
var whenFull = map[string]struct{ limit, effect string }{
	"requests": {"nats.streams.requests.max_msgs or max_bytes", "NATS refuses requests to the inbox."},
	"work":     {"nats.streams.work.max_msgs or max_bytes", "genbus refuses new jobs."},
	"wait":     {"nats.streams.work.max_msgs or max_bytes", "genbus refuses new jobs."},
	"tasks":    {"nats.streams.tasks.max_bytes", "genbus refuses new jobs."},
	"dead":     {"nats.streams.dead.max_bytes", "genbus submits no more videos."},
	"ops":      {"nats.streams.ops.max_bytes", "genbus refuses operator actions."},
	"chunks":   {"nats.streams.chunks.max_bytes", "Late readers miss the start of a running chat."},
	"rejected": {"nats.streams.rejected.max_bytes", "Dead letters of rejected requests disappear early."},
	"usage":    {"nats.streams.usage.max_bytes", "Late readers miss usage events."},
}

func (f findings) fullStreams() (out []*genbusv1.Attention) {
	for _, s := range f.streams {
		word, percent := streamWord(s.GetName()), int(s.GetUsed()*100)
		full := whenFull[word]
		entry := &genbusv1.Attention{
			Subject: "stream " + s.GetName(), Action: "Raise " + full.limit + " on all replicas, and restart them one at a time.",
			Command: "genbus operator streams", Console: consolePath + "/streams",
		}
		switch {
		case s.GetDropsOld() && s.history < 1:
			entry.Reason = genbusv1.Attention_REASON_STREAM_DROPS_OLD
			entry.Affects = fmt.Sprintf("It is %d %% full, and keeps messages for only %d %% of max_age. %s", percent, int(s.history*100), full.effect)
		case !s.GetDropsOld() && s.GetUsed() >= nearlyFull:
			entry.Reason = genbusv1.Attention_REASON_STREAM_FULL
			entry.Affects = fmt.Sprintf("%d %% of its capacity is used or reserved. At 100 %%, %s", percent, full.effect)
		default:
			continue
		}
		if word == wordDead {
			entry.Action, entry.Command, entry.Console = "Resolve dead letters, or raise "+full.limit+".", "genbus operator dead list", consolePath+"/decisions"
		}
		out = append(out, entry)
	}
	return out
}

func (f findings) deadLetters() []*genbusv1.Attention {
	d := f.overview.GetDeadLetters()
	jobs := d.GetOutcomeUnknown() + d.GetOther() + d.GetUncounted()
	if jobs == 0 {
		return nil
	}
	entry := &genbusv1.Attention{
		Reason: genbusv1.Attention_REASON_DEAD_LETTERS, Subject: "failed jobs",
		Affects: plural.Count(jobs, "failed job") + plural.Form(jobs, " waits", " wait") + " for a decision.",
		Action:  "Look up the code of each dead letter, then attach, retry (redrive) or drop it.",
		Command: "genbus operator dead list", Console: consolePath + "/decisions",
	}
	for _, s := range f.streams {
		if streamWord(s.GetName()) == wordDead {
			entry.Since = s.GetOldest()
		}
	}
	if n := d.GetOutcomeUnknown(); n > 0 {
		entry.Affects += fmt.Sprintf(" The outcome of %d is unknown: the upstream may have charged without a result.", n)
		entry.Action = "Look for the tasks with unknown outcomes at the upstream. Attach those that it has. Retry (redrive) the others once the upstream works again."
		entry.Command += " --code " + string(errcode.SubmissionUnknown)
		entry.Console += "?code=" + string(errcode.SubmissionUnknown)
	}
	if n := d.GetUncounted(); n > 0 {
		entry.Affects += fmt.Sprintf(" The %s of %d %s not read.", plural.Form(n, "code", "codes"), n, plural.Form(n, "was", "were"))
	}
	return []*genbusv1.Attention{entry}
}

func (f findings) openBreakers() (out []*genbusv1.Attention) {
	for _, h := range f.overview.GetUpstreams() {
		var s sighting
		last := &genbusv1.UpstreamState{}
		for _, r := range f.replicas {
			for _, u := range r.GetUpstreams() {
				if u.GetName() != h.GetName() {
					continue
				}
				if badness[u.GetBreaker()] > badness[genbusv1.UpstreamState_BREAKER_CLOSED] {
					s.add(r, u.GetBreakerSince())
				}
				if last.GetLastErrorAt() == nil || bySince(u.GetLastErrorAt(), last.GetLastErrorAt()) > 0 && u.GetLastErrorAt() != nil {
					last = u
				}
			}
		}
		if len(s.replicas) == 0 {
			continue
		}
		affects := fmt.Sprintf("genbus avoids it%s: jobs go to other upstreams of their routes, or wait. %d of %s in the last 5 minutes failed.", s.share(f.replicas), h.GetCallsFailed(), plural.Count(h.GetCalls(), "call"))
		if last.GetLastError() != "" { // possibly older
			affects += " Last failure: " + last.GetLastError() + "."
		}
		out = append(out, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_BREAKER_OPEN, Subject: "upstream " + h.GetName(), Since: s.since,
			Affects: affects + f.unfinishedOn(h.GetName()),
			Action:  "The next successful trial closes the breaker. If none succeeds, take the upstream out of its routes, or pause them.",
			Command: "genbus operator upstreams", Console: consolePath + "/upstreams",
		})
	}
	return out
}

// unfinishedOn says how many jobs the routes of an upstream have. Held ones may wait for the upstream
// too. It is empty if the routes could not be read.
func (f findings) unfinishedOn(upstream string) string {
	var names []string
	var jobs uint64
	for _, r := range f.overview.GetRoutes() {
		route, _ := f.config.RouteNamed(r.GetRoute().GetKind(), r.GetRoute().GetName())
		if slices.ContainsFunc(route.Upstreams, func(t config.Target) bool { return t.Name == upstream }) {
			names = append(names, routeName(route.Kind, route.Name))
			jobs += r.GetRoute().GetWaiting() + r.GetRoute().GetInHand()
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" %s on %s.", plural.Count(jobs, "unfinished job"), strings.Join(names, ", "))
}

func routeName(kind, name string) string { return kind + " route " + name }

func (f findings) refusedKeys() (out []*genbusv1.Attention) {
	type keyName struct{ upstream, key string }
	seen, status, all := map[keyName]*sighting{}, map[keyName]int32{}, map[keyName]bool{}
	for _, r := range f.replicas {
		for _, u := range r.GetUpstreams() {
			for _, k := range u.GetKeys() {
				name := keyName{u.GetName(), k.GetName()}
				if all[name] = true; k.GetCooldownUntil() == nil {
					continue
				}
				if seen[name] == nil {
					seen[name], status[name] = &sighting{}, k.GetHttpStatus()
				}
				seen[name].add(r, k.GetRefusedSince())
			}
		}
	}
	for name, s := range seen {
		others, refused := 0, 0
		for other := range all {
			switch {
			case other.upstream != name.upstream || other == name:
			case seen[other] == nil:
				others++
			default:
				refused++
			}
		}
		rest := "It has no other key, so each job tries this one and fails."
		switch {
		case others > 0:
			rest = "Its " + plural.Form(others, "other key takes", fmt.Sprint(others, " other keys take")) + " the jobs."
		case refused > 0:
			rest = "It refused its " + plural.Form(refused, "other key", fmt.Sprint(refused, " other keys")) + " too, so each job tries one of them and fails."
		}
		by, action := "", "Top up the account at the upstream, or put another key in its place and reload the configuration (SIGHUP)."
		if status[name] != 0 {
			by = fmt.Sprintf(" with HTTP %d", status[name])
		}
		if status[name] == http.StatusUnauthorized {
			action = "Put a valid key in its place, and reload the configuration (SIGHUP)."
		}
		if others == 0 {
			action += " Until then, pause the routes, so that jobs wait instead of failing."
		}
		which := "only key of upstream " + name.upstream
		if name.key != "" {
			which = "key " + name.upstream + "/" + name.key
		}
		out = append(out, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_KEY_REFUSED, Subject: which, Since: s.since,
			Affects: fmt.Sprintf("Upstream %s refused it%s%s. %s", name.upstream, by, s.share(f.replicas), rest),
			Action:  action,
			Command: "genbus operator upstreams", Console: consolePath + "/upstreams",
		})
	}
	return out
}

// missingReplicas returns the replicas that did not answer. If the broker did not answer either,
// their silence says nothing.
func (f findings) missingReplicas() (out []*genbusv1.Attention) {
	if f.err != nil {
		return nil
	}
	var longest time.Duration
	for _, r := range f.config.Routes {
		longest = max(longest, r.AckWait)
	}
	for _, r := range f.overview.GetSilent() {
		if f.overview.GetAsOf().AsTime().Sub(r.GetHeardAt().AsTime()) < replicaPatience {
			continue // it missed one question on a busy machine
		}
		out = append(out, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_REPLICA_MISSING, Subject: "replica " + cmp.Or(r.GetAddress(), r.GetId()), Since: r.GetHeardAt(),
			Affects: fmt.Sprintf("It does not answer; %s. If it was killed, another one takes over its jobs within %.0f s (ack_wait).",
				plural.Count(len(f.replicas), "replica")+plural.Form(len(f.replicas), " does", " do"), longest.Seconds()),
			Action:  "Start it again, and look for the cause in its log. It is listed until another replica replaces it, for 3 minutes at most.",
			Command: "genbus operator replicas", Console: consolePath + "/replicas",
		})
	}
	return out
}

func (f findings) pausedRoutes() (out []*genbusv1.Attention) {
	for _, o := range f.overview.GetRoutes() {
		r := o.GetRoute()
		if !r.GetPaused() {
			continue
		}
		affects := plural.Count(r.GetWaiting(), "job") + plural.Form(r.GetWaiting(), " waits", " wait")
		if subject.Kind(r.GetKind()) == subject.Chat {
			affects += ", and inline chats are refused"
		}
		p := r.GetPause()
		affects += ". Paused by " + cmp.Or(p.GetBy(), "another program than genbus")
		action := "Resume it when the reason is over."
		if p.GetUntil() != nil {
			affects += " until " + p.GetUntil().AsTime().Format(time.RFC3339)
			action = "It resumes by itself. To resume it now, run the command."
		}
		if p.GetReason() != "" {
			affects += ": " + p.GetReason()
		}
		out = append(out, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_ROUTE_PAUSED, Subject: routeName(r.GetKind(), r.GetName()), Since: p.GetSince(), Affects: affects + ".", Action: action,
			Command: fmt.Sprintf("genbus operator resume %s %s", r.GetKind(), r.GetName()), Console: consolePath + "/routes",
		})
	}
	return out
}

func (f findings) unconfiguredRoutes() (out []*genbusv1.Attention) {
	for _, r := range f.orphans {
		jobs := r.GetReady() + r.GetWaiting()
		out = append(out, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_ROUTE_UNCONFIGURED, Subject: routeName(r.GetKind(), r.GetName()),
			Affects: fmt.Sprintf("%s %s, the oldest since %s. The route is not configured, and no replica asks for its jobs, though one with an older configuration may hold some.",
				plural.Count(jobs, "job"), plural.Form(jobs, "waits", "wait"), r.GetOldest().AsTime().Format(time.RFC3339)),
			Action:  "Make sure that no replica has an older configuration. Then configure the route again, or end its jobs (operator orphans fail).",
			Command: "genbus operator orphans list", Console: consolePath + "/routes",
		})
	}
	return out
}

func (f findings) tenantsAtLimit() (out []*genbusv1.Attention) {
	for _, t := range f.tenants {
		var affects, actions []string
		command := "genbus operator tenants"
		if t.GetMaxJobs() > 0 && t.GetUnfinished() >= t.GetMaxJobs() {
			affects = append(affects, fmt.Sprintf("It has %s of at most %d (max_jobs), so genbus refuses more.", plural.Count(t.GetUnfinished(), "unfinished job"), t.GetMaxJobs()))
			actions = append(actions, "Let jobs end, cancel some, or raise its max_jobs.")
			command = "genbus operator jobs list --status unfinished --tenant " + t.GetTenant()
		}
		if share := used(t.GetStoredBytes(), t.GetMaxStoredBytes()); share >= storeFilling {
			affects = append(affects, fmt.Sprintf("It uses %d %% of its %s of storage (limits.bodies_bytes). At 100 %%, genbus refuses its jobs.", int(share*100), config.Size(t.GetMaxStoredBytes())))
			actions = append(actions, "Erase ended jobs, or raise limits.bodies_bytes.")
		}
		if affects == nil {
			continue
		}
		out = append(out, &genbusv1.Attention{
			Reason: genbusv1.Attention_REASON_TENANT_AT_LIMIT, Subject: "tenant " + t.GetTenant(), Affects: strings.Join(affects, " "), Action: strings.Join(actions, " "),
			Command: command, Console: consolePath + "/tenants",
		})
	}
	return out
}
