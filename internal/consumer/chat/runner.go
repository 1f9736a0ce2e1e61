// Package chat runs queued chats. For each attempt, it logs the attempt, calls the upstream and
// publishes streamed blocks as chunks. It ends the job with the reply.
package chat

import (
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/telemetry"
)

// Runner runs the queued chats of one route. All fields are required.
type Runner struct {
	Holder  *hold.Holder
	Config  *config.Live
	Routes  *routes.Table
	Encoder publisher.Encoder
	// Route and Metrics are the route's name and metrics.
	Route   string
	Metrics *telemetry.RouteMetrics
}
