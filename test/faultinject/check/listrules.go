package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// listsOwn: jobs that the log does not have were listed before it was lost.
func listsOwn(f *facts, broken report) (looked int) {
	known := map[string]bool{} // one report for each job
	for _, l := range slices.Concat(f.Lists, f.Final) {
		for _, id := range l.Jobs {
			looked++
			log := f.logs[id]
			why := ""
			switch {
			case len(log) == 0 && !f.lost(LosesLog, l.Asked):
				why = "the log does not have it"
			case len(log) > 0 && log[0].Tenant != l.Tenant:
				why = "it is of tenant " + log[0].Tenant
			case !isVideo(id):
				why = "it is no video task"
			}
			if why != "" && !known[id] {
				known[id] = true
				broken(id, "listed for tenant %s at %s by %s, and %s", l.Tenant, clock(l.Time), l.Target, why)
			}
		}
	}
	return looked
}

// listsWhole: jobs that were stored after a list was asked for may be in it or not.
func listsWhole(f *facts, broken report) (looked int) {
	for _, l := range f.Final {
		looked++
		if !l.Good() {
			broken("", "%s gave no whole list of tenant %s from %s to %s: %s", l.Target, l.Tenant, clock(l.Asked), clock(l.Time), cmp.Or(l.Lost, l.Code))
			continue
		}
		want := f.newestFirst(l.Tenant, l.Asked)
		got := slices.DeleteFunc(slices.Clone(l.Jobs), func(id string) bool { return f.storedAfter(id, l.Asked) })
		if !slices.Equal(got, want) {
			job, how := difference(got, want)
			broken(job, "%s listed %d video tasks of tenant %s at %s, and the log has %d: %s", l.Target, len(got), l.Tenant, clock(l.Time), len(want), how)
		}
	}
	return looked
}

// newestFirst are a tenant's video tasks as a list that was asked for at that time has
// them: by created_at, which may be by a wrong clock, and by the id where it is the same.
func (f *facts) newestFirst(tenant string, asked time.Time) []string {
	var out []string
	for id, log := range f.queued {
		if isVideo(id) && log[0].Tenant == tenant && !f.storedAfter(id, asked) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(f.logs[b][0].Created.Compare(f.logs[a][0].Created), strings.Compare(b, a))
	})
	return out
}

func (f *facts) storedAfter(id string, at time.Time) bool {
	log := f.logs[id]
	return len(log) > 0 && log[0].Stored.After(at)
}

// difference says where two lists differ, and names the first job with which they do.
func difference(got, want []string) (job, how string) {
	place := 0
	for place < min(len(got), len(want)) && got[place] == want[place] {
		place++
	}
	at := func(ids []string) string {
		if place < len(ids) {
			return ids[place]
		}
		return ""
	}
	job = cmp.Or(at(want), at(got))
	missing, more := without(want, got), without(got, want)
	return job, fmt.Sprintf("%d are missing (%s), %d are not in the log (%s), and at place %d is %q in place of %q",
		len(missing), few(missing), len(more), few(more), place+1, at(got), at(want))
}

// without are the ids that others do not have.
func without(ids, others []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return slices.Contains(others, id) })
}

// few are the first ids of many.
func few(ids []string) string {
	const most = 5
	if len(ids) > most {
		return strings.Join(ids[:most], " ") + " ..."
	}
	return strings.Join(ids, " ")
}

// quietFor is how long nothing must have been broken for lists to be given: replicas agree
// within some seconds on who keeps the index, and it is read from the log then.
const quietFor = 30 * time.Second

// listsReady: the start of the run is as that of replicas that were killed.
func listsReady(f *facts, broken report) (looked int) {
	for _, l := range f.Lists {
		faults := slices.DeleteFunc(slices.Clone(f.Faults), func(fault Fault) bool { return fault.From.After(l.Time) })
		if l.Asked.Before(QuietFrom(f.Began, faults)) {
			continue
		}
		looked++
		if l.Code == "index_catching_up" {
			broken("", "%s told tenant %s %s at %s, and nothing had been broken for %s", l.Target, l.Tenant, l.Code, clock(l.Time), quietFor)
		}
	}
	return looked
}

// QuietFrom is when lists have to be given after a run has begun and after these faults, if no
// other one follows. A clean stop is one of them, because a replica has no index when it comes
// back.
func QuietFrom(began time.Time, faults []Fault) time.Time {
	for _, fault := range faults {
		if fault.harms() || fault.Kind == FaultTerminate {
			began = later(began, later(fault.From, fault.To))
		}
	}
	return began.Add(quietFor)
}
