// Package chat carries queued chats to their end: it logs an attempt, calls the upstream, publishes
// the blocks as chunks, and ends the job with the reply.
package chat

import (
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
)

// Runner takes the queued chats of one route. All fields are required.
type Runner struct {
	Holder  *hold.Holder
	Config  *config.Live
	Routes  *routes.Table
	Encoder publisher.Encoder
	// Route is the route's name, and Metrics are the route's.
	Route   string
	Metrics *telemetry.RouteMetrics
}
