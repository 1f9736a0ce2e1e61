// Package admission accepts requests from all ingresses. It validates, routes, fingerprints and
// enqueues them. The protocols interpret the bodies.
package admission

import (
	"context"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/jobindex"
	"github.com/genbus/genbus/internal/joblog"
	"github.com/genbus/genbus/internal/queue"
	"github.com/genbus/genbus/internal/quota"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/telemetry"
)

// Admission is the only code that enqueues new jobs.
type Admission struct {
	*Tenants
	cfg         *config.Live
	b           *broker.Broker
	log         *joblog.Log
	bodies      *broker.Bodies
	queue       *queue.Queue
	firsts      *firsts
	deadLetters *quota.DeadLetterQuota
	metrics     *telemetry.Metrics
}

// Options are the dependencies of Admission. All are required.
type Options struct {
	Config          *config.Live
	Broker          *broker.Broker
	Log             *joblog.Log
	Index           *jobindex.Index
	Bodies          *broker.Bodies
	Queue           *queue.Queue
	DeadLetterQuota *quota.DeadLetterQuota
	Metrics         *telemetry.Metrics
}

// New returns an Admission.
func New(o Options) *Admission {
	return &Admission{
		Tenants: newTenants(quota.Options{Limits: o.Config.LimitsOf, Unfinished: o.Index.Unfinished}, o.Metrics),
		cfg:     o.Config, b: o.Broker, log: o.Log, bodies: o.Bodies, queue: o.Queue, deadLetters: o.DeadLetterQuota, metrics: o.Metrics, firsts: newFirsts(),
	}
}

// First returns the job as this process admitted it. It waits if the admission is still in
// progress. It returns each job only once, because a second caller may have missed events and must
// read the log.
func (a *Admission) First(ctx context.Context, n subject.JobName) (joblog.Entry, bool) {
	return a.firsts.take(ctx, n)
}
