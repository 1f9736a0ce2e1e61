// Package chat carries queued chats to their end: an attempt is written to the log, the
// upstream is called, its blocks are published as chunks, and its reply is the job's end.
package chat

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/hold"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/publisher"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/task"
	"github.com/genbus/genbus/internal/telemetry"
)

// Runner takes the queued chats of one route. All fields are required.
type Runner struct {
	Holder  *hold.Holder
	Config  *config.Live
	Routes  *routes.Table
	Encoder publisher.Encoder
	// Route is the route's name, and Metrics are its.
	Route   string
	Metrics *telemetry.RouteMetrics
}

// errNotOurs ends the call of a chat that was cancelled, or that another replica has gone
// on with.
var errNotOurs = errors.New("the chat has ended or is another replica's")

// job is one held chat. Its goroutine lives as long as the chat does: a chat lasts as long
// as its call.
type job struct {
	runner *Runner
	held   *hold.Job
	ctx    context.Context //nolint:containedctx // ends with errNotOurs, or with the process's work
	stop   context.CancelCauseFunc

	// failing is what operators are told while calls fail that are made again: no event says so
	// where the attempt is not used up. What it points to is never changed.
	failing atomic.Pointer[genbusv1.HeldJob]

	mu    sync.Mutex
	ended bool // nothing begins any more

	// Only the job's goroutine touches what follows.
	route       *routes.Chat // as it was when this attempt began, or went on after a wait
	maxAttempts int          // of the same configuration
	tried       pool.Tried   // across the attempts of this process
	called      uint32       // the last attempt that was called here

	ticket *pool.Ticket  // its place among those that wait for a slot
	turn   chan struct{} // has a token when a slot may be free
}

// renewRoute takes the route, and what bounds its attempts, as they are configured now.
func (j *job) renewRoute() {
	j.route, _ = j.runner.Routes.Chat(j.runner.Route)
	j.maxAttempts = j.runner.Config.Now().Chat.MaxAttempts
}

func (j *job) chat() *genbusv1.Chat {
	c, _ := j.held.Entry().Job.(*genbusv1.Chat)
	return c
}

// fail ends the chat with an error, and whatever chunks were published of this attempt.
func (j *job) fail(chunks uint64, f *errcode.Error) error {
	return j.held.Persist(j.ctx, func() (task.Event, error) {
		return task.FailedChat(j.chat(), time.Now(), chunks, f.TaskError())
	})
}
