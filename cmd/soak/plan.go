package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// action is one kind of step.
type action string

// The steps. Those on nodes and links need --cluster.
const (
	quiet       action = "quiet"        // nothing, for a while
	kill        action = "kill"         // SIGKILL a replica, start it after a while
	killAll     action = "kill-all"     // SIGKILL all replicas, start them after a while
	rolling     action = "rolling"      // SIGTERM and start one replica after the other
	stopReplica action = "stop"         // SIGSTOP a replica for longer than ack_wait
	aimKill     action = "aim-kill"     // SIGKILL a replica between a message and its answer
	aimStop     action = "aim-stop"     // SIGSTOP it there for longer than an admission may take
	aimHold     action = "aim-hold"     // keep the answer, and all that follow, from it
	cutReplica  action = "cut-replica"  // a replica hears nothing of the broker
	nodeKill    action = "node-kill"    // SIGKILL a node, start it after a while
	nodeStop    action = "node-stop"    // SIGSTOP a node
	isolate     action = "isolate"      // a node hears no other
	isolateTwo  action = "isolate-two"  // two nodes hear no other: no majority
	cutClients  action = "cut-clients"  // the connections of a node's clients are reset
	nodeAndKill action = "node-and-app" // a node and a replica are killed together
	pauseRoute  action = "pause"        // an operator pauses a route and resumes it
	foreignAck  action = "foreign-ack"  // a client that does not hold the work returns it
	changeMix   action = "mix"          // the upstreams change their mix of faults
	large       action = "large"        // many requests and replies that no message holds
	duplicates  action = "duplicates"   // many large requests, each sent by two clients at once
	garbage     action = "garbage"      // a tenant publishes large messages that are no requests
	durable     action = "durable"      // a durable consumer is deleted
	stream      action = "stream"       // a stream is deleted
	routes      action = "routes"       // a reload has a route drain, and another ends that
	routesNode  action = "routes-node"  // the same, while a node hears no other
	clock       action = "clock"        // a replica's time of day is wrong
	fill        action = "fill"         // jobs are accepted until the log is full, and then they go on
	cancelKill  action = "cancel-kill"  // jobs are cancelled while their creates are lost, and a replica is killed
	failing     action = "failing"      // one of two upstreams of a route fails all creates
	fullDisk    action = "full-disk"    // the disk of the embedded broker is full; with --small-disk
)

// step is one thing that is done.
type step struct {
	Action action
	// Target is the replica, the node or the route, by number.
	Target int
	For    time.Duration
	// Mix is the mix of changeMix.
	Mix string
	// By is how far the clock of clock is ahead.
	By time.Duration
	// Moment is the moment of aim-kill, aim-stop and aim-hold, by its number. After is how
	// long the answer is held before the replica is broken, and Late has it held until
	// after the replica has gone on.
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

// plan is the steps of a run, one after the other.
type plan []step

func (p plan) String() string {
	var out strings.Builder
	for i, s := range p {
		fmt.Fprintf(&out, "%3d  %s\n", i+1, s)
	}
	return out.String()
}

// draw is an action with its weight, and the least and the most that it lasts.
type draw struct {
	action      action
	weight      int
	least, most time.Duration
}

// ackWait is how long the service waits for a sign of life of a job's holder.
const ackWait = 5 * time.Second

// What a stop that is aimed at an admission lasts: longer than all of its deadlines
// (admission's own is 8 s), and sometimes longer than any limit of a job.
const (
	leastAimStop, mostAimStop = 9 * time.Second, 12 * time.Second
	leastLongStop             = deadline + time.Second
	mostLongStop              = leastLongStop + 10*time.Second
	// mostAfter is the longest that answers are held before the replica is broken.
	mostAfter = 500 * time.Millisecond
)

// How long an upstream fails all creates.
const leastFailing, mostFailing = 15 * time.Second, 25 * time.Second

var singleDraws = []draw{
	{kill, 6, 100 * time.Millisecond, 4 * time.Second},
	{rolling, 2, 0, 2 * time.Second},
	{stopReplica, 3, ackWait + time.Second, 4 * ackWait},
	{aimKill, 4, 100 * time.Millisecond, 4 * time.Second},
	{aimStop, 2, leastAimStop, mostAimStop},
	{pauseRoute, 1, time.Second, 4 * time.Second},
	{foreignAck, 1, 0, 0},
	{large, 1, 0, 0},
	{duplicates, 1, 0, 0},
	{garbage, 1, 0, 0},
	{durable, 2, 0, 0},
	{stream, 1, 0, 0},
	{routes, 2, time.Second, 3 * ackWait},
	{cancelKill, 2, 100 * time.Millisecond, 4 * time.Second},
	{failing, 1, leastFailing, mostFailing},
	{changeMix, 3, 0, 0},
}

var clusterDraws = []draw{
	{kill, 5, 100 * time.Millisecond, 8 * time.Second},
	{killAll, 1, 500 * time.Millisecond, 4 * time.Second},
	{rolling, 2, 0, 2 * time.Second},
	{stopReplica, 4, ackWait + time.Second, 5 * ackWait},
	{aimKill, 4, 100 * time.Millisecond, 4 * time.Second},
	{aimStop, 3, leastAimStop, mostAimStop},
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
	{failing, 2, leastFailing, mostFailing},
	{changeMix, 4, 0, 0},
}

// skews are how far a replica's clock is ahead: by more than any limit of a job, and by
// less.
var skews = []time.Duration{49 * time.Hour, -49 * time.Hour, 20 * time.Second, -20 * time.Second}

// has reports whether a plan has a kind of step.
func (p plan) has(a action) bool {
	return slices.ContainsFunc(p, func(s step) bool { return s.Action == a })
}

// nodeCount is the number of broker nodes of a cluster.
const nodeCount = 3

// plan draws the steps from the seed: as many as the time takes. A step takes
// somewhat longer than it says, for what it broke has to heal; what does not fit
// any more is left out.
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

// draws are the steps that this run may have.
func (o options) draws() []draw {
	all := singleDraws
	if o.Cluster {
		all = clusterDraws
	}
	if o.SmallLog {
		all = append(slices.Clone(all), draw{fill, 1, 0, 0})
	}
	if o.SmallDisk {
		all = append(slices.Clone(all), draw{fullDisk, 2, time.Second, 8 * time.Second})
	}
	if o.Service != "" { // a binary that was built elsewhere has the clock that it has
		all = slices.DeleteFunc(slices.Clone(all), func(d draw) bool { return d.action == clock })
	}
	if len(o.Only) == 0 {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(d draw) bool { return !slices.Contains(o.Only, string(d.action)) })
}

// check refuses steps that this run cannot have.
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

// drawn draws the rest of a step, where so much time is left.
func (o options) drawn(r *rand.Rand, d draw, left time.Duration) step {
	s := step{Action: d.action, For: between(r, d.least, d.most)}
	switch d.action {
	case changeMix:
		s.Mix = mixNames[r.IntN(len(mixNames))]
	case kill, stopReplica, cutReplica, cancelKill:
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

// drawAim draws how an aimed step goes. With an embedded broker no answer can be held.
func (o options) drawAim(r *rand.Rand, s *step, left time.Duration) {
	if o.Cluster {
		s.After = between(r, 0, mostAfter)
	}
	if s.Action != aimStop {
		return
	}
	s.Late = o.Cluster && r.IntN(2) == 0
	if r.IntN(4) == 0 && left > mostLongStop {
		s.For = between(r, leastLongStop, mostLongStop)
	}
}

// between draws a time, in whole hundredths of a second.
func between(r *rand.Rand, least, most time.Duration) time.Duration {
	const unit = 10 * time.Millisecond
	if most <= least {
		return least
	}
	return least + time.Duration(r.Int64N(int64((most-least)/unit)+1))*unit
}
