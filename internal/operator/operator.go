// Package operator implements what operators can do, such as inspecting dead letters and creating
// jobs from them, erasing jobs, pausing routes, and ending the jobs of unconfigured routes. It does
// not authenticate callers. Package grpcapi admits only operators.
package operator

import (
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/operator/audit"
	"github.com/genbus/genbus/internal/operator/orphans"
	"github.com/genbus/genbus/internal/parts"
)

// Operator combines all operator actions, which apply to all tenants. It is safe for concurrent
// use, even on several replicas at once. Its methods return a *errcode.Error for errors that have a
// code, and errors of the broker and the log unchanged. All fields are required, including those of
// its parts.
type Operator struct {
	DeadLetters *DeadLetterActions
	Routes      *Routes
	Jobs        Jobs
	// Requests handles the requests of jobs. DeadLetters handles those of dead letters.
	Requests Requests
	Audit    audit.Log
	Bulk     Bulk

	Replicas  Replicas
	Tenants   Tenants
	Streams   Streams
	Overview  *Overview
	Attention *Attention
}

// New returns an Operator with all its parts.
func New(p *parts.Parts, member *fleet.Member, cancel Cancel) Operator {
	o := Operator{
		DeadLetters: &DeadLetterActions{
			Config: p.Config, Names: p.Broker.Names(), Streams: deadletter.Streams{Broker: p.Broker}, Log: p.Log, Bodies: p.Bodies,
			Uploads: p.Uploads, Admission: p.Admission, Items: p.Queue.Items, Routes: p.Routes, Logger: p.Logger,
		},
		Routes: &Routes{
			Config: p.Config, Table: p.Routes, Queue: p.Queue, Rates: p.Index,
			Ender: orphans.Ender{Log: p.Log, Queue: p.Queue, DeadLetters: p.DeadLetters, Logger: p.Logger},
		},
		Jobs:     Jobs{Log: p.Log, Index: p.Index, Queue: p.Queue, Eraser: p.Eraser, Fleet: member},
		Audit:    audit.Log{Broker: p.Broker, Logger: p.Logger},
		Replicas: Replicas{Fleet: member},
		Tenants:  Tenants{Index: p.Index, Config: p.Config, Fleet: member, Bodies: p.Bodies},
		Streams:  Streams{Broker: p.Broker},
	}
	o.Requests = Requests{Config: p.Config, Items: p.Queue.Items, Bodies: p.Bodies, DeadLetters: o.DeadLetters, Admission: p.Admission}
	o.Bulk = Bulk{Jobs: o.Jobs, DeadLetters: o.DeadLetters, Cancel: cancel}
	o.Overview = NewOverview(o.Routes, &deadletter.Counter{Streams: o.DeadLetters.Streams}, member)
	o.Attention = NewAttention(p, &o)
	return o
}
