package check

import (
	"slices"
)

// jobsOf returns the queued jobs of each marker.
func (f *facts) jobsOf() map[string][]string {
	out := map[string][]string{}
	for id, log := range f.queued {
		if marker := log[0].Marker; marker != "" {
			out[marker] = append(out[marker], id)
		}
	}
	return out
}

// inboxEnds checks that stored requests have an outcome. Requests in a deleted inbox are lost.
func inboxEnds(f *facts, broken report) (looked int) {
	for _, t := range f.unadmitted() {
		broken("", "the request %s, stored in the inbox at %s, is no job and no dead letter", t.Marker, clock(t.Time))
	}
	for _, t := range f.Calls {
		if t.stored() {
			looked++
		}
	}
	return looked
}

// stored reports whether a request is in the inbox.
func (t Call) stored() bool { return t.Op == OpPublish && t.Good() }

// Unadmitted counts the stored inbox requests that are neither a job nor a dead letter yet.
func Unadmitted(h *History) int { return len(index(h).unadmitted()) }

func (f *facts) unadmitted() []Call {
	jobs := f.jobsOf()
	letters := group(f.DeadLetters, func(l DeadLetter) string { return l.Marker })
	var out []Call
	for _, t := range f.Calls {
		if t.stored() && len(jobs[t.Marker]) == 0 && len(letters[t.Marker]) == 0 && !f.lost(LosesRequests, t.Asked) {
			out = append(out, t)
		}
	}
	return out
}

func oneJob(f *facts, broken report) (looked int) {
	jobs := f.jobsOf()
	for _, marker := range sortedBy(jobs) {
		if ids := jobs[marker]; len(ids) > 1 {
			broken(ids[1], "the request %s is a job already: %s", marker, ids[0])
		}
	}
	return len(jobs)
}

// nothingAccepted lists the codes that promise that nothing was accepted.
var nothingAccepted = []string{
	"queue_full", "storage_full", "broker_unavailable", "shutting_down", "invalid_request", "invalid_json", "body_too_large",
	"unsupported_media_type", "model_not_found", "wrong_protocol", "idempotency_key_reused", "rate_limited", "tenant_full", "route_paused", "clock_wrong",
}

// refusedMeansRefused checks that a request that was always refused has no job. Inline chats are
// not queued jobs.
func refusedMeansRefused(f *facts, broken report) (looked int) {
	asked := group(f.Calls, func(t Call) string { return t.Marker })
	jobs := f.jobsOf()
	for _, marker := range sortedBy(asked) {
		calls := slices.DeleteFunc(slices.Clone(asked[marker]), func(t Call) bool { return t.NotSent })
		if marker == "" || slices.ContainsFunc(calls, Call.mayAccept) {
			continue
		}
		looked++
		if ids := jobs[marker]; len(ids) > 0 {
			broken(ids[0], "the request %s was refused each of %d times", marker, len(calls))
		}
	}
	return looked
}

// mayAccept reports whether the request may have created a job, judging by its answer. If the
// answer names the job, its code describes what happened to the job later.
func (t Call) mayAccept() bool {
	named := t.Job != "" && t.Code != "idempotency_key_reused"
	return t.Op == OpPublish || named || !slices.Contains(nothingAccepted, t.Code)
}

func sameKey(f *facts, broken report) (looked int) {
	keyed := map[string][]Call{}
	for _, t := range f.Calls {
		if t.Key != "" {
			keyed[t.Key] = append(keyed[t.Key], t)
		}
	}
	for _, key := range sortedBy(keyed) {
		if len(keyed[key]) > 1 {
			looked++
		}
		f.oneBody(key, keyed[key], broken)
	}
	return looked
}

// oneBody checks all requests with the same key.
func (f *facts) oneBody(key string, calls []Call, broken report) {
	var first Call
	for _, t := range calls {
		switch {
		case t.Op == OpPublish || t.Job == "" || !t.Good():
		case first.Job == "":
			first = t
		case t.Job != first.Job:
			broken(t.Job, "request_id %s is job %s as well", key, first.Job)
		case t.Body != first.Body:
			broken(t.Job, "request_id %s was accepted with another body at %s and %s", key, clock(first.Time), clock(t.Time))
		}
	}
	for _, t := range calls {
		others := slices.ContainsFunc(calls, func(o Call) bool { return o.Body != t.Body })
		if t.Code == "idempotency_key_reused" && !others {
			broken(t.Job, "request_id %s was refused as reused at %s, and it never had another body", key, clock(t.Time))
		}
	}
}

// answersTrue checks that a status with a version is the status of that version, and that a
// terminal status is the job's end.
func answersTrue(f *facts, broken report) (looked int) {
	for _, t := range f.Calls {
		if t.Job == "" || t.Status == "" || !t.Good() || f.inlineAsked(t.Job) {
			continue
		}
		looked++
		e, stored := f.event(t.Job, t.Version)
		end, ended := f.end(t.Job)
		switch {
		case t.Version > 0 && !stored:
			broken(t.Job, "version %d, told by %s at %s, is not in the log", t.Version, t.Ingress, clock(t.Time))
		case t.Version > 0 && e.Status != t.Status:
			broken(t.Job, "version %d is %s in the log and was told as %s", t.Version, e.Status, t.Status)
		case terminal(t.Status) && (!ended || end.Status != t.Status):
			broken(t.Job, "told as %s at %s (%s), and it ended %q", t.Status, clock(t.Time), t.Ingress, end.Status)
		}
	}
	return looked
}

// getForward checks that once a client has an answer, every later request returns that state or a
// later one, from any replica.
func getForward(f *facts, broken report) (looked int) {
	before := map[string]Call{}
	for _, t := range f.Calls {
		if t.Job == "" || t.Status == "" || !t.Good() || f.inlineAsked(t.Job) {
			continue
		}
		key := t.Client + "\x00" + t.Job
		last, known := before[key]
		if known {
			looked++
		}
		if known && (rank(t.Status) < rank(last.Status) || t.Version > 0 && t.Version < last.Version) {
			broken(t.Job, "%s was told %s (version %d) at %s by %s, after %s (version %d) at %s by %s", t.Client,
				t.Status, t.Version, clock(t.Time), t.Target, last.Status, last.Version, clock(last.Time), last.Target)
		}
		if t.Version == 0 { // short HTTP answers have no version
			t.Version = last.Version
		}
		before[key] = t
	}
	return looked
}

func getFound(f *facts, broken report) (looked int) {
	for _, t := range f.Calls {
		first, known := f.accepted[t.Job]
		if !known || t.Op == OpPeek || !t.Asked.After(first.Time) {
			continue
		}
		looked++
		if t.notFound() {
			broken(t.Job, "%s was told %s at %s by %s, and it was accepted at %s", t.Client, t.Code, clock(t.Time), t.Target, clock(first.Time))
		}
	}
	return looked
}

func (t Call) notFound() bool { return t.Code == "task_not_found" || t.Code == "chat_not_found" }

// tenants checks that no tenant can access another tenant's job. It also checks answers that name
// such a job.
func tenants(f *facts, broken report) (looked int) {
	for _, t := range f.Calls {
		log := f.logs[t.Job]
		if t.Job == "" || len(log) == 0 || t.Tenant == log[0].Tenant || t.Lost != "" || t.Passing() {
			continue
		}
		looked++
		if !t.notFound() {
			broken(t.Job, "%s %s by tenant %s was answered %q %q at %s, and the job is of tenant %s", t.Ingress, t.Op, t.Tenant, t.Status, t.Code, clock(t.Time), log[0].Tenant)
		}
	}
	return looked
}

func answers(f *facts, broken report) (looked int) {
	for _, t := range f.Calls {
		switch {
		case t.Code == "internal":
			broken(t.Job, "%s %s answered %s (HTTP %d) at %s by %s", t.Ingress, t.Op, t.Code, t.HTTP, clock(t.Time), t.Target)
		case t.Whole && !f.generated(t.Job, t.Text):
			broken(t.Job, "%s %s answered a reply that the upstream did not say: %s", t.Ingress, t.Op, f.nearest(t.Job, t.Text))
		}
	}
	for _, l := range f.Lists {
		if l.Code == "internal" {
			broken("", "a list of tenant %s was answered %s (HTTP %d) at %s by %s", l.Tenant, l.Code, l.HTTP, clock(l.Time), l.Target)
		}
	}
	return len(f.Calls) + len(f.Lists)
}
