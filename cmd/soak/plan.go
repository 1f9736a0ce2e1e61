package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

type action string

// Steps. Those on nodes and links need --cluster.
const (
	quiet       action = "quiet"        // no fault for a while
	kill        action = "kill"         // SIGKILL a replica, restart it later
	killAll     action = "kill-all"     // SIGKILL all replicas, restart them later
	rolling     action = "rolling"      // SIGTERM and restart one replica at a time
	replace     action = "replace"      // SIGTERM a replica, and start its other version; with --upgrade-from
	replaceKill action = "replace-kill" // the same with SIGKILL
	stopReplica action = "stop"         // SIGSTOP a replica for longer than ack_wait
	aimKill     action = "aim-kill"     // SIGKILL a replica between a message and its answer
	aimStop     action = "aim-stop"     // SIGSTOP a replica there for longer than an admission may take
	aimHold     action = "aim-hold"     // hold the answer and everything after it
	cutReplica  action = "cut-replica"  // cut a replica off from the broker
	nodeKill    action = "node-kill"    // SIGKILL a node, restart it later
	nodeStop    action = "node-stop"    // SIGSTOP a node
	isolate     action = "isolate"      // cut a node off from the others
	isolateTwo  action = "isolate-two"  // cut two nodes off, which leaves no majority
	cutClients  action = "cut-clients"  // reset the connections of a node's clients
	nodeAndKill action = "node-and-app" // kill a node and a replica together
	pauseRoute  action = "pause"        // pause a route and resume it
	foreignAck  action = "foreign-ack"  // return work in place of its holder
	changeMix   action = "mix"          // change the fault mix of the upstreams
	large       action = "large"        // many requests and replies larger than a message
	duplicates  action = "duplicates"   // many large requests, each sent by two clients at once
	garbage     action = "garbage"      // publish large invalid messages
	durable     action = "durable"      // delete a durable consumer
	stream      action = "stream"       // delete a stream
	routes      action = "routes"       // drain a route by a reload, and undo it
	routesNode  action = "routes-node"  // drain a route while a node is cut off
	clock       action = "clock"        // set a replica's clock wrong
	fill        action = "fill"         // fill the log with jobs, then let them run
	cancelKill  action = "cancel-kill"  // cancel jobs whose creates are lost, and kill a replica
	failing     action = "failing"      // fail all creates of one of a route's two upstreams
	fullDisk    action = "full-disk"    // fill the disk of the embedded broker; with --small-disk
)

type step struct {
	Action action
	// Target is the index of the replica, node or route.
	Target int
	For    time.Duration
	// Mix is the fault mix of changeMix.
	Mix string
	// By is how far clock sets the replica's clock ahead.
	By time.Duration
	// Moment is the index of the moment of an aimed step. After is how long the answer is held
	// before the replica is broken. If Late is set, the answer is held until the replica has
	// continued.
	Moment int
	After  time.Duration
	Late   bool
}

func (s step) String() string {
	switch s.Action {
	case quiet:
		return fmt.Sprintf("quiet for %s", s.For)
	case changeMix:
		return "upstreams: " + s.Mix
	case foreignAck, large, duplicates, garbage, fill:
		return string(s.Action)
	case clock:
		return fmt.Sprintf("%s %d ahead by %s for %s", s.Action, s.Target, s.By, s.For)
	case durable:
		return fmt.Sprintf("%s %s", s.Action, durables[s.Target])
	case stream:
		return fmt.Sprintf("%s %s", s.Action, streams[s.Target])
	case routes:
		return fmt.Sprintf("%s %s away for %s", s.Action, served[s.Target%len(served)].name, s.For)
	case aimKill, aimStop, aimHold:
		return s.aimed()
	case killAll, rolling, failing, fullDisk:
		return fmt.Sprintf("%s for %s", s.Action, s.For)
	default:
		return fmt.Sprintf("%s %d for %s", s.Action, s.Target, s.For)
	}
}

func (s step) aimed() string {
	out := fmt.Sprintf("%s %d for %s at %s", s.Action, s.Target, s.For, moments[s.Moment].name)
	if s.After > 0 {
		out += fmt.Sprintf(", %s later", s.After)
	}
	if s.Late {
		out += ", answers late"
	}
	return out
}

type plan []step

func (p plan) String() string {
	var out strings.Builder
	for i, s := range p {
		fmt.Fprintf(&out, "%3d  %s\n", i+1, s)
	}
	return out.String()
}

// draw is an action with its weight and the range of its duration.
type draw struct {
	action   action
	weight   int
	min, max time.Duration
}

// ackWait is the ack_wait of all routes.
const ackWait = 5 * time.Second

// Duration of a stop aimed at an admission. It is longer than the deadlines of an admission (8 s
// for the admission itself), and sometimes longer than all limits of a job.
const (
	minAimStop, maxAimStop = 9 * time.Second, 12 * time.Second
	minLongStop            = deadline + time.Second
	maxLongStop            = minLongStop + 10*time.Second
	// maxAfter is the longest hold of an answer before the replica is broken.
	maxAfter = 500 * time.Millisecond
)

// Duration for which an upstream fails creates.
const minFailing, maxFailing = 15 * time.Second, 25 * time.Second

var singleDraws = []draw{
	{kill, 6, 100 * time.Millisecond, 4 * time.Second},
	{rolling, 2, 0, 2 * time.Second},
	{stopReplica, 3, ackWait + time.Second, 4 * ackWait},
	{aimKill, 4, 100 * time.Millisecond, 4 * time.Second},
	{aimStop, 2, minAimStop, maxAimStop},
	{pauseRoute, 1, time.Second, 4 * time.Second},
	{foreignAck, 1, 0, 0},
	{large, 1, 0, 0},
	{duplicates, 1, 0, 0},
	{garbage, 1, 0, 0},
	{durable, 2, 0, 0},
	{stream, 1, 0, 0},
	{routes, 2, time.Second, 3 * ackWait},
	{cancelKill, 2, 100 * time.Millisecond, 4 * time.Second},
	{failing, 1, minFailing, maxFailing},
	{changeMix, 3, 0, 0},
}

var clusterDraws = []draw{
	{kill, 5, 100 * time.Millisecond, 8 * time.Second},
	{killAll, 1, 500 * time.Millisecond, 4 * time.Second},
	{rolling, 2, 0, 2 * time.Second},
	{stopReplica, 4, ackWait + time.Second, 5 * ackWait},
	{aimKill, 4, 100 * time.Millisecond, 4 * time.Second},
	{aimStop, 3, minAimStop, maxAimStop},
	{aimHold, 3, time.Second, 4 * ackWait},
	{cutReplica, 4, ackWait + time.Second, 5 * ackWait},
	{nodeKill, 4, 200 * time.Millisecond, 15 * time.Second},
	{nodeStop, 2, 2 * time.Second, 15 * time.Second},
	{isolate, 4, 2 * time.Second, 20 * time.Second},
	{isolateTwo, 1, ackWait + time.Second, 3 * ackWait},
	{cutClients, 2, 200 * time.Millisecond, 4 * time.Second},
	{nodeAndKill, 2, 500 * time.Millisecond, 8 * time.Second},
	{pauseRoute, 2, time.Second, 4 * time.Second},
	{foreignAck, 3, 0, 0},
	{large, 1, 0, 0},
	{duplicates, 2, 0, 0},
	{garbage, 1, 0, 0},
	{durable, 3, 0, 0},
	{stream, 2, 0, 0},
	{routes, 2, time.Second, 3 * ackWait},
	{routesNode, 2, time.Second, 3 * ackWait},
	{clock, 2, ackWait, 5 * ackWait},
	{cancelKill, 3, 100 * time.Millisecond, 8 * time.Second},
	{failing, 2, minFailing, maxFailing},
	{changeMix, 4, 0, 0},
}

// upgradeDraws are the steps of a run with two versions.
var upgradeDraws = []draw{
	{replace, 3, 0, 2 * time.Second},
	{replaceKill, 3, 100 * time.Millisecond, 4 * time.Second},
	{changeMix, 1, 0, 0},
}

// skews are errors of a replica's clock. Some are larger and some are smaller than the queue
// timeout and the deadline of a job.
var skews = []time.Duration{49 * time.Hour, -49 * time.Hour, 20 * time.Second, -20 * time.Second}

func (p plan) has(a action) bool {
	return slices.ContainsFunc(p, func(s step) bool { return s.Action == a })
}

const nodeCount = 3

// plan draws steps from the seed until the duration is used up. Steps take longer than planned
// because faults must heal, so the last ones may be skipped.
func (o options) plan() plan {
	if o.Steps != nil {
		return o.Steps
	}
	r, draws := rand.New(rand.NewPCG(o.Seed, 1)), o.draws()
	p := plan{{Action: changeMix, Mix: mixNames[1]}}
	if o.SmallLog {
		p = append(p, step{Action: quiet, For: 5 * time.Second}, step{Action: fill})
	}
	for left := o.Duration; left > 0; {
		s := o.step(r, draws, left)
		rest := step{Action: quiet, For: between(r, time.Second, 10*time.Second)}
		if s.Action == changeMix {
			rest.For = between(r, 3*time.Second, 8*time.Second)
		}
		p = append(p, s, rest)
		left -= s.For + rest.For
	}
	return p
}

// draws returns the steps that this run may contain.
func (o options) draws() []draw {
	all := singleDraws
	if o.Cluster {
		all = clusterDraws
	}
	if o.UpgradeFrom != "" {
		all = upgradeDraws
	}
	if o.SmallLog {
		all = append(slices.Clone(all), draw{fill, 1, 0, 0})
	}
	if o.SmallDisk {
		all = append(slices.Clone(all), draw{fullDisk, 2, time.Second, 8 * time.Second})
	}
	if o.Service != "" { // another binary may not have a clock that can be set
		all = slices.DeleteFunc(slices.Clone(all), func(d draw) bool { return d.action == clock })
	}
	if len(o.Only) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(d draw) bool { return !slices.Contains(o.Only, string(d.action)) })
}

// check rejects steps that this run cannot contain.
func (o options) check() error {
	if got := o.draws(); len(o.Only) > 0 && len(got) != len(o.Only) {
		var names []string
		all := o
		all.Only = nil
		for _, d := range all.draws() {
			names = append(names, string(d.action))
		}
		return fmt.Errorf("--only %s: want different ones of %s", strings.Join(o.Only, ","), strings.Join(names, ", "))
	}
	if o.Replicas < 1 || o.Rate <= 0 || o.Duration <= 0 || o.Kills < 0 || o.Jobs < 0 {
		return errors.New("want at least one replica, and a rate and a duration above 0")
	}
	if o.UpgradeFrom != "" && o.Kills > 0 {
		return errors.New("--upgrade-from follows a plan, and --kills does not")
	}
	if o.SmallDisk && o.Cluster || o.SmallPayload && !o.Cluster {
		return errors.New("--small-disk is for an embedded broker, and --small-payload for --cluster")
	}
	return nil
}

func (o options) step(r *rand.Rand, draws []draw, left time.Duration) step {
	sum := 0
	for _, d := range draws {
		sum += d.weight
	}
	at := r.IntN(sum)
	for _, d := range draws {
		if at -= d.weight; at < 0 {
			return o.drawn(r, d, left)
		}
	}
	return step{Action: quiet}
}

// drawn draws the details of a step. left is the remaining time of the run.
func (o options) drawn(r *rand.Rand, d draw, left time.Duration) step {
	s := step{Action: d.action, For: between(r, d.min, d.max)}
	switch d.action {
	case changeMix:
		s.Mix = mixNames[r.IntN(len(mixNames))]
	case kill, replace, replaceKill, stopReplica, cutReplica, cancelKill:
		s.Target = r.IntN(o.Replicas)
	case aimKill, aimStop, aimHold:
		s.Target, s.Moment = r.IntN(o.Replicas), r.IntN(len(moments))
		o.drawAim(r, &s, left)
	case clock:
		s.Target, s.By = r.IntN(o.Replicas), skews[r.IntN(len(skews))]
	case durable:
		s.Target = r.IntN(len(durables))
	case stream:
		s.Target = r.IntN(len(streams))
	default:
		s.Target = r.IntN(nodeCount)
	}
	return s
}

// drawAim draws the details of an aimed step. With an embedded broker, answers cannot be held.
func (o options) drawAim(r *rand.Rand, s *step, left time.Duration) {
	if o.Cluster {
		s.After = between(r, 0, maxAfter)
	}
	if s.Action != aimStop {
		return
	}
	s.Late = o.Cluster && r.IntN(2) == 0
	if r.IntN(4) == 0 && left > maxLongStop {
		s.For = between(r, minLongStop, maxLongStop)
	}
}

// between draws a duration in units of 10 ms.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	const unit = 10 * time.Millisecond
	if most <= least {
		return least
	}
	return least + time.Duration(r.Int64N(int64((most-least)/unit)+1))*unit
}
