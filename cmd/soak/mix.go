package main

import "github.com/genbus/genbus/test/faultinject"

// mixNames are the fault mixes of the upstreams, from none to many.
var mixNames = []string{"calm", "usual", "refusing", "breaking", "rough"}

var mixes = map[string]faultinject.Mix{
	"calm": {},
	// usual: occasional faults.
	"usual": {
		faultinject.OpCreate: {
			faultinject.Latency: 0.04, faultinject.TooMany: 0.02, faultinject.TooManyLater: 0.02, faultinject.InternalAfter: 0.01,
			faultinject.ResetAccepted: 0.01, faultinject.TaskFails: 0.02, faultinject.TaskNeverEnds: 0.01,
			faultinject.TaskResultLate: 0.02, faultinject.TaskRefused: 0.01, faultinject.NestedID: 0.05,
		},
		faultinject.OpPoll: {faultinject.Latency: 0.02, faultinject.PollErrors: 0.01},
		faultinject.OpChat: {faultinject.Latency: 0.04, faultinject.TooMany: 0.02, faultinject.CutAnswer: 0.02, faultinject.Unavailable: 0.01, faultinject.OddEvents: 0.05, faultinject.NoChoice: 0.01},
	},
	// refusing: mostly overloaded.
	"refusing": {
		faultinject.OpCreate: {faultinject.TooMany: 0.2, faultinject.TooManyLater: 0.2, faultinject.Unavailable: 0.05, faultinject.Redirect: 0.02},
		faultinject.OpPoll:   {faultinject.PollErrors: 0.1, faultinject.NotFound: 0.02},
		faultinject.OpChat:   {faultinject.TooMany: 0.2, faultinject.TooManyLater: 0.2, faultinject.Unavailable: 0.1},
	},
	// breaking: unreliable connections.
	"breaking": {
		faultinject.OpCreate: {
			faultinject.ResetBefore: 0.05, faultinject.ResetDuring: 0.03, faultinject.ResetAccepted: 0.06, faultinject.CutAnswer: 0.06,
			faultinject.Drip: 0.05, faultinject.Latency: 0.05,
		},
		faultinject.OpPoll: {faultinject.ResetBefore: 0.03, faultinject.CutAnswer: 0.03, faultinject.PollGarbage: 0.03, faultinject.Drip: 0.02},
		faultinject.OpChat: {
			faultinject.ResetBefore: 0.05, faultinject.ResetDuring: 0.03, faultinject.CutAnswer: 0.1, faultinject.StreamStall: 0.05, faultinject.Drip: 0.03,
		},
	},
	"rough": faultinject.Evenly(0.2),
	// losing: answers to creates are late or lost; only for cancel-kill.
	"losing": {
		faultinject.OpCreate: {faultinject.Latency: 0.5, faultinject.ResetAccepted: 0.2, faultinject.CutAnswer: 0.2},
	},
}
