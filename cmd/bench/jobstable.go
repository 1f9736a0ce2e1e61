package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Design goals for queued chats with an embedded broker. Rates are relative to the floor without
// fsync.
const (
	aimChatNoFsync   = 0.5
	aimChatFsync     = 0.15
	aimChatFsyncFull = 0.3
	aimChatP99       = 0.025 // seconds, at aimPacedRate, with fsync
	aimPacedRate     = 200   // jobs per second
)

// compareJobs sets the ratios to the floor, if that was measured.
func compareJobs(all []jobsResult) {
	rates := map[jobsCase]float64{}
	for _, r := range all {
		rates[r.jobsCase] = r.PerSecond
	}
	for i := range all {
		same := all[i].jobsCase
		same.Target = targetFloor
		noFsync := same
		noFsync.Fsync = onOff(false)
		if base := rates[same]; base > 0 {
			all[i].Ratio = all[i].PerSecond / base
		}
		if base := rates[noFsync]; base > 0 {
			all[i].RatioNoFsync = all[i].PerSecond / base
		}
	}
}

// aim returns the target ratio to the floor without fsync, or 0 for a row without a target.
func (k jobsCase) aim() float64 {
	switch {
	case k.Target != targetGenbus || k.Kind != "chat" || k.Nodes != 1:
		return 0
	case k.Fsync == onOff(false):
		return aimChatNoFsync
	case k.Inbox == inboxFull:
		return aimChatFsyncFull
	default:
		return aimChatFsync
	}
}

func (r jobsResult) verdict() string {
	want := r.aim()
	if want == 0 || r.RatioNoFsync == 0 {
		return "-"
	}
	return fmt.Sprintf("%g %s", want, aim(r.RatioNoFsync >= want))
}

func (p jobsPaced) verdict(rate float64) string {
	if p.aim() == 0 || p.Fsync == onOff(false) || rate != aimPacedRate {
		return "-"
	}
	return fmt.Sprintf("%g %s", aimChatP99*1000, aim(p.P99 <= aimChatP99))
}

// stored formats what each stream stored per job, and the sum.
func (r jobsResult) stored() string {
	sum, parts := 0.0, []string{}
	for _, stream := range slices.Sorted(maps.Keys(r.Stored)) {
		sum += r.Stored[stream]
		parts = append(parts, stream+" "+number(r.Stored[stream]))
	}
	return fmt.Sprintf("%s (%s)", number(sum), strings.Join(parts, ", "))
}

func (r jobsReport) print() error { return printTables(r.Machine, r.tables()) }

func (r jobsReport) tables() []table {
	rates := table{title: "Jobs from the inbox to the feed, next to a plain consumer (floor)"}
	rates.add("nodes", "kind", "fsync", "inbox", "target", "jobs/s", "to the floor", "to the floor, fsync off", "aim for it", "service CPU ms/job", "NATS CPU ms/job",
		"upstream CPU ms/job", "client CPU ms/job", "load")
	messages := table{title: "Messages for each job: on the service's connection to NATS servers outside, and stored, by stream"}
	messages.add("nodes", "kind", "fsync", "inbox", "target", "to NATS", "from NATS", "stored")
	for _, m := range r.Rates {
		rates.add(append(m.cells(), number(m.PerSecond), ratio(m.Ratio), ratio(m.RatioNoFsync), m.verdict(), number(m.ServiceMS), ratio(m.NATSMS),
			number(m.UpstreamMS), number(m.ClientMS), m.LoadAvg)...)
		messages.add(append(m.cells(), ratio(m.ToServer), ratio(m.FromServer), m.stored())...)
	}
	paced := table{title: "From the publish of a request to the client of the feed, at a fixed rate"}
	paced.add("nodes", "kind", "fsync", "inbox", "target", "published/s", "p50 ms", "p99 ms", "aim p99", "of it delivery p50 ms", "delivery p99 ms", "load")
	for _, p := range r.Paced {
		paced.add(append(p.cells(), number(p.PublishedRate), number(p.P50*1000), number(p.P99*1000), p.verdict(r.Rate), number(p.DeliveryP50*1000),
			number(p.DeliveryP99*1000), p.LoadAvg)...)
	}
	return []table{rates, messages, paced}
}

func (k jobsCase) cells() []string {
	return []string{fmt.Sprint(k.Nodes), k.Kind, k.Fsync, k.Inbox, k.Target}
}
