package main

import "github.com/genbus/genbus/internal/faulttest"

// mixNames are the mixes of faults of the upstreams, from none to many.
var mixNames = []string{"calm", "usual", "refusing", "breaking", "rough"}

// mixes are what the names mean.
var mixes = map[string]faulttest.Mix{
	"calm": {},
	// usual: what a good upstream does on a bad day.
	"usual": {
		faulttest.OpCreate: {
			faulttest.Latency: 0.04, faulttest.TooMany: 0.02, faulttest.TooManyLater: 0.02, faulttest.InternalAfter: 0.01,
			faulttest.ResetAccepted: 0.01, faulttest.TaskFails: 0.02, faulttest.TaskNeverEnds: 0.01,
		},
		faulttest.OpPoll: {faulttest.Latency: 0.02, faulttest.PollErrors: 0.01},
		faulttest.OpChat: {faulttest.Latency: 0.04, faulttest.TooMany: 0.02, faulttest.CutAnswer: 0.02, faulttest.Unavailable: 0.01},
	},
	// refusing: mostly overloaded.
	"refusing": {
		faulttest.OpCreate: {faulttest.TooMany: 0.2, faulttest.TooManyLater: 0.2, faulttest.Unavailable: 0.05, faulttest.Redirect: 0.02},
		faulttest.OpPoll:   {faulttest.PollErrors: 0.1, faulttest.NotFound: 0.02},
		faulttest.OpChat:   {faulttest.TooMany: 0.2, faulttest.TooManyLater: 0.2, faulttest.Unavailable: 0.1},
	},
	// breaking: connections do not hold.
	"breaking": {
		faulttest.OpCreate: {
			faulttest.ResetBefore: 0.05, faulttest.ResetDuring: 0.03, faulttest.ResetAccepted: 0.06, faulttest.CutAnswer: 0.06,
			faulttest.Drip: 0.05, faulttest.Latency: 0.05,
		},
		faulttest.OpPoll: {faulttest.ResetBefore: 0.03, faulttest.CutAnswer: 0.03, faulttest.PollGarbage: 0.03, faulttest.Drip: 0.02},
		faulttest.OpChat: {
			faulttest.ResetBefore: 0.05, faulttest.ResetDuring: 0.03, faulttest.CutAnswer: 0.1, faulttest.StreamStall: 0.05, faulttest.Drip: 0.03,
		},
	},
	"rough": faulttest.Evenly(0.2),
}
