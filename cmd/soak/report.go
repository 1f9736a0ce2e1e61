package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/genbus/genbus/test/faultinject/check"
)

type result struct {
	options
	Begin, End time.Time
	Faults     []check.Fault
	Upstream   map[string]int // by "op/fault"
	Counts     check.Counts
	Violations []check.Violation
	// Starts counts failed starts of replicas. They were retried.
	Starts int
	// Keeps counts how often a replica started to keep the job index.
	Keeps int
	Dir   string
}

// command returns the command line that repeats the run.
func (r result) command() string {
	out := fmt.Sprintf("go run ./cmd/soak --seed %d", r.Seed)
	if r.Kills > 0 {
		out += fmt.Sprintf(" --kills %d --jobs %d", r.Kills, r.Jobs)
	} else {
		out += fmt.Sprintf(" --duration %s --rate %g", r.Duration, r.Rate)
	}
	if r.UpgradeFrom != "" {
		out += " --upgrade-from " + r.UpgradeFrom
	}
	if r.SmallLog {
		out += " --small-log"
	}
	if len(r.Only) > 0 {
		out += " --only " + strings.Join(r.Only, ",")
	}
	if r.Cluster {
		out += fmt.Sprintf(" --cluster --replicas %d", r.Replicas)
	}
	return out
}

type row struct {
	name string
	text string
}

func (r result) sections() []section {
	c := r.Counts
	return []section{
		{"Faults of processes, nodes and links", counted(r.faultCounts())},
		{"Faults of the upstreams, by request and fault", counted(r.Upstream)},
		{"Queued jobs that were accepted, by kind", counted(c.Accepted)},
		{"Of these before the last fault began", counted(c.Stormy)},
		{"Queued jobs, by kind and ingress, and their ends", nested(c.Jobs)},
		{"Inline chats, by their end in the log", counted(c.Inline)},
		{"POSTs on the wire, by fault", nested(named(c.Posts))},
		{"Unknown outcomes, by what explains them", counted(c.Unknown)},
		{"Dead letters, by code", counted(c.DeadLetters)},
		{"Questions of clients", counted(c.Asked)},
		{"Answers that were not granted", counted(c.Errors)},
		{"Lists that were not given", counted(c.Unlisted)},
		{"Longest time in which one client saw only errors", troubles(c.Trouble)},
		{"And", []row{
			{"paid video tasks at the upstreams", fmt.Sprint(c.Paid)},
			{"jobs that another replica went on with", fmt.Sprint(c.Takeovers)},
			{"starts of replicas that were tried again", fmt.Sprint(r.Starts)},
			{"seconds in which the harness got no processor", fmt.Sprintf("%.1f", r.stalled().Seconds())},
			{"jobs without an end", fmt.Sprint(c.Unfinished)},
			{"others whose work item was deleted", fmt.Sprint(c.Lost)},
			{"requests that were given a job that they had", fmt.Sprint(c.Attaches)},
			{"lists that were asked for, and given", fmt.Sprintf("%d, %d (%d by a page token)", c.Lists, c.Listed, c.Paged)},
			{"times that a replica began to keep the index", fmt.Sprint(r.Keeps)},
			{"followers, and times that they connected again", fmt.Sprintf("%d, %d", c.Followers, c.Resumes)},
		}},
		{"What each rule has looked at", counted(c.Looked)},
	}
}

type section struct {
	title string
	rows  []row
}

func (r result) faultCounts() map[string]int {
	out := map[string]int{}
	for _, f := range r.Faults {
		name := string(f.Kind)
		switch f.Kind {
		case check.FaultMix, check.FaultBurst, check.FaultDelete, check.FaultRoute:
			name += " " + f.Target
		default:
		}
		if f.At != "" {
			name += " at " + f.At
		}
		out[name]++
	}
	return out
}

func (r result) stalled() time.Duration {
	var sum time.Duration
	for _, f := range r.Faults {
		if f.Kind == check.FaultStall {
			sum += f.To.Sub(f.From)
		}
	}
	return sum
}

func counted(m map[string]int) []row {
	names := slices.Sorted(maps.Keys(m))
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(m[b], m[a]) })
	rows := make([]row, 0, len(names))
	for _, name := range names {
		rows = append(rows, row{cmp.Or(name, "none"), fmt.Sprint(m[name])})
	}
	return rows
}

func nested(m map[string]map[string]int) []row {
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(m)) {
		var parts []string
		for _, part := range counted(m[name]) {
			parts = append(parts, part.text+" "+part.name)
		}
		rows = append(rows, row{name, strings.Join(parts, ", ")})
	}
	return rows
}

// named labels POSTs without a fault as good.
func named(m map[string]map[string]int) map[string]map[string]int {
	out := map[string]map[string]int{}
	for op, faults := range m {
		out[op] = map[string]int{}
		for fault, n := range faults {
			out[op][cmp.Or(fault, "good")] = n
		}
	}
	return out
}

func troubles(m map[string]check.Trouble) []row {
	var rows []row
	for _, name := range slices.Sorted(maps.Keys(m)) {
		t := m[name]
		text := fmt.Sprintf("%.1f s, %d errors, from %s", t.Lasted.Seconds(), t.Errors, t.From.UTC().Format("15:04:05"))
		if !t.Granted {
			text += ", given up"
		}
		rows = append(rows, row{name, text})
	}
	return rows
}

func (r result) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "seed %d, %s, %s to %s\nagain: %s\n", r.Seed, r.broker(), r.Begin.UTC().Format(time.DateTime), r.End.UTC().Format("15:04:05"), r.command())
	for _, s := range r.sections() {
		if len(s.rows) == 0 {
			continue
		}
		fmt.Fprintf(&out, "\n%s\n", s.title)
		for _, row := range s.rows {
			fmt.Fprintf(&out, "  %-36s %s\n", row.name, row.text)
		}
	}
	fmt.Fprintf(&out, "\n%d violations\n", len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(&out, "  %s\n", v)
	}
	return out.String()
}

func (r result) markdown() string {
	var out strings.Builder
	fmt.Fprintf(&out, "### Seed %d, %s\n\n`%s`, %s to %s UTC.\n\n| | |\n|---|---|\n", r.Seed, r.broker(), r.command(),
		r.Begin.UTC().Format(time.DateTime), r.End.UTC().Format("15:04:05"))
	for _, s := range r.sections() {
		if len(s.rows) == 0 {
			continue
		}
		fmt.Fprintf(&out, "| **%s** | |\n", s.title)
		for _, row := range s.rows {
			fmt.Fprintf(&out, "| %s | %s |\n", row.name, row.text)
		}
	}
	fmt.Fprintf(&out, "| **Violations** | **%d** |\n\n", len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(&out, "- %s\n", v)
	}
	return out.String()
}
