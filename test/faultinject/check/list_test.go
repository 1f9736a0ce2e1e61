package check

import "slices"

// catchingUp adds a list that was refused.
func (h *History) catchingUp(at float64) {
	h.Lists = append(h.Lists, Listed{Asked: s(at), Time: s(at + 1), Target: "0", Code: "index_catching_up", HTTP: 503})
}

// sameMoment adds a video task with the same creation time as the other one. Its ID is higher, so
// it is listed first.
func (h *History) sameMoment() {
	h.append(Event{Job: "video_q", QueueDeadline: s(600)}, "queued", "queued", s(0))
}

// listBreaks change the good history so that a promise about lists is broken.
var listBreaks = []broke{
	{"another tenant's job is listed", []string{"lists-own"}, func(h *History) {
		h.Lists = append(h.Lists, Listed{Tenant: "b", Asked: s(20), Time: s(21), Jobs: []string{film}})
	}},
	{"a chat is listed", []string{"lists-own"}, func(h *History) { h.Lists[0].Jobs = append(h.Lists[0].Jobs, talk) }},
	{"a job is listed that the log does not have", []string{"lists-own"}, func(h *History) {
		h.Lists[1].Jobs = []string{"video_z"}
	}},
	{"a job is listed after the log was lost", []string{"lists-own"}, func(h *History) {
		h.Lists = append(h.Lists, Listed{Asked: s(20), Time: s(21), Jobs: []string{"video_z"}})
		h.Faults = append(h.Faults, Fault{Kind: FaultDelete, From: s(4), To: s(5), Loses: LosesLog})
	}},
	{"a replica forgets a job", []string{"lists-whole"}, func(h *History) { h.Final[1].Jobs = nil }},
	{"a replica lists a job twice", []string{"lists-whole"}, func(h *History) { h.Final[1].Jobs = []string{film, film} }},
	{"a replica goes on listing what is gone", []string{"lists-own", "lists-whole"}, func(h *History) {
		h.Final[1].Jobs = append(h.Final[1].Jobs, "video_z")
	}},
	{"a replica lists another tenant's job", []string{"lists-own", "lists-whole"}, func(h *History) {
		h.Final = append(h.Final, Listed{Tenant: "b", Asked: s(290), Jobs: []string{film}})
	}},
	{"a replica lists the oldest first", []string{"lists-whole"}, func(h *History) {
		h.append(Event{Job: "video_0", QueueDeadline: s(600)}, "queued", "queued", s(1))
		slices.Reverse(h.Final[0].Jobs)
	}},
	{"a replica lists jobs of one moment by another order", []string{"lists-whole"}, func(h *History) {
		h.sameMoment()
		slices.Reverse(h.Final[0].Jobs)
	}},
	{"a replica does not list any more", []string{"lists-whole"}, func(h *History) {
		h.Final[0].Jobs, h.Final[0].Code = nil, "index_catching_up"
	}},
	{"a replica does not answer any more", []string{"lists-whole"}, func(h *History) { h.Final[0].Lost = "timeout" }},
	{"no index, and nothing was broken", []string{"lists-ready"}, func(h *History) { h.catchingUp(20) }},
	{"no index, long after a fault", []string{"lists-ready"}, func(h *History) {
		h.catchingUp(50)
		h.Faults = append(h.Faults, Fault{Kind: FaultIsolate, From: s(13), To: s(19), Broker: true})
	}},
	{"no index before a fault", []string{"lists-ready"}, func(h *History) {
		h.catchingUp(50)
		h.Faults = append(h.Faults, Fault{Kind: FaultIsolate, From: s(52), To: s(59), Broker: true})
	}},
	{"no index while a route is paused", []string{"lists-ready"}, func(h *History) {
		h.catchingUp(50)
		h.Faults = append(h.Faults, Fault{Kind: FaultPause, From: s(40), To: s(60)})
	}},
	{"a list is answered with a bug", []string{"answers"}, func(h *History) {
		h.Lists = append(h.Lists, Listed{Asked: s(20), Time: s(21), Code: "internal", HTTP: 500})
	}},
}

// listExcuses are changes of lists that break no promise.
var listExcuses = []excuse{
	{"no index while a fault lasts", func(h *History) {
		h.catchingUp(50)
		h.Faults = append(h.Faults, Fault{Kind: FaultCutReplica, From: s(40), To: s(60), Broker: true})
	}},
	{"no index soon after a fault", func(h *History) {
		h.catchingUp(50)
		h.Faults = append(h.Faults, Fault{Kind: FaultKill, From: s(13), To: s(21)})
	}},
	{"no index soon after a clean stop", func(h *History) {
		h.catchingUp(50)
		h.Faults = append(h.Faults, Fault{Kind: FaultTerminate, From: s(13), To: s(21)})
	}},
	{"no index soon after the start", func(h *History) { h.catchingUp(-31) }},
	{"another error, and nothing was broken", func(h *History) {
		h.Lists = append(h.Lists, Listed{Asked: s(20), Time: s(21), Code: "rate_limited", HTTP: 429})
	}},
	{"a job was listed before the log was lost", func(h *History) {
		h.Lists = append(h.Lists, Listed{Asked: s(3), Time: s(3), Jobs: []string{"video_z"}})
		h.Faults = append(h.Faults, Fault{Kind: FaultDelete, From: s(4), To: s(5), Loses: LosesLog})
	}},
	{"jobs of one moment", func(h *History) { h.sameMoment() }},
	{"a job that is stored while lists are read", func(h *History) {
		h.append(Event{Job: "video_q", QueueDeadline: s(600)}, "queued", "queued", s(290.5))
		h.Final[0].Jobs = []string{film}
	}},
	{"a tenant without jobs", func(h *History) { h.Final = append(h.Final, Listed{Tenant: "b", Asked: s(290)}) }},
}
