// Package operator is what operators can do about failures: look at dead
// letters and make jobs of them, erase jobs, pause routes, and settle the jobs of routes
// that are not configured. It does not know who calls: internal/api/grpcapi lets
// only operators in.
package operator

import (
	"github.com/genbus/genbus/internal/operator/audit"
)

// Operator is all that operators can do, over all tenants. It is safe for concurrent use,
// and several replicas may do the same at the same time. Its errors are *errcode.Error
// where they have a meaning of their own; those of the broker and of the log come as they
// are. All fields are required, and those of its parts too.
type Operator struct {
	Letters *DeadLetterActions
	Routes  *Routes
	Jobs    Jobs
	// Requests are those of jobs; Letters has those of letters.
	Requests Requests
	Audit    audit.Log
	Bulk     Bulk

	Replicas Replicas
	Tenants  Tenants
	Streams  Streams
	Overview *Overview
}
