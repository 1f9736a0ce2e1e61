// Package operator is what operators can do about failures: look at dead
// letters and make jobs of them, erase jobs, pause routes, and settle the jobs of routes
// that are not configured. It does not know who calls: internal/api/grpcapi lets
// only operators in.
package operator

import (
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/fleet"
	"github.com/genbus/genbus/internal/operator/audit"
	"github.com/genbus/genbus/internal/operator/orphans"
	"github.com/genbus/genbus/internal/parts"
)

// Operator is all that operators can do, over all tenants. It is safe for concurrent use,
// and several replicas may do the same at the same time. Its errors are *errcode.Error
// where they have a meaning of their own; those of the broker and of the log come as they
// are. All fields are required, and those of its parts too.
type Operator struct {
	DeadLetters *DeadLetterActions
	Routes      *Routes
	Jobs        Jobs
	// Requests are those of jobs; DeadLetters has those of dead letters.
	Requests Requests
	Audit    audit.Log
	Bulk     Bulk

	Replicas Replicas
	Tenants  Tenants
	Streams  Streams
	Overview *Overview
}

// New builds everything that operators can do.
func New(p *parts.Parts, member *fleet.Member, cancel Cancel) Operator {
	record := audit.Log{Broker: p.Broker, Logger: p.Logger}
	o := Operator{
		DeadLetters: &DeadLetterActions{
			Config: p.Config, Names: p.Broker.Names(), Streams: deadletter.Streams{Broker: p.Broker}, Log: p.Log, Bodies: p.Bodies,
			Uploads: p.Uploads, Admission: p.Admission, Items: p.Queue.Items, Routes: p.Routes, Logger: p.Logger,
		},
		Routes: &Routes{
			Config: p.Config, Table: p.Routes, Queue: p.Queue, Rates: p.Index, Audit: record,
			Settler: orphans.Settler{Log: p.Log, Queue: p.Queue, DeadLetters: p.DeadLetters, Logger: p.Logger},
		},
		Jobs:     Jobs{Log: p.Log, Index: p.Index, Queue: p.Queue, Eraser: p.Eraser, Fleet: member},
		Audit:    record,
		Replicas: Replicas{Fleet: member},
		Tenants:  Tenants{Index: p.Index, Config: p.Config, Fleet: member, Bodies: p.Bodies},
		Streams:  Streams{Broker: p.Broker},
	}
	o.Requests = Requests{Config: p.Config, Items: p.Queue.Items, Bodies: p.Bodies, DeadLetters: o.DeadLetters, Admission: p.Admission}
	o.Bulk = Bulk{Jobs: o.Jobs, DeadLetters: o.DeadLetters, Cancel: cancel}
	o.Overview = NewOverview(o.Routes, &deadletter.Counter{Streams: o.DeadLetters.Streams}, member)
	return o
}
