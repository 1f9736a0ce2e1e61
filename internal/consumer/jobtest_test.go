package consumer

import (
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/consumer/jobtest"
)

// Short names for fixtures of package jobtest.
var (
	publish           = jobtest.Publish
	videoRequest      = jobtest.VideoRequest
	follow            = jobtest.Follow
	phases            = jobtest.Phases
	last              = jobtest.Last
	deadLetters       = jobtest.DeadLetters
	videoID           = jobtest.VideoID
	videoOf           = jobtest.VideoOf
	pastOf            = jobtest.PastOf
	pastItem          = jobtest.PastItem
	itemOf            = jobtest.ItemOf
	forerunner        = jobtest.Forerunner
	completedUpstream = jobtest.CompletedUpstream
	linked            = jobtest.Linked
	openAt            = jobtest.OpenAt
	shortly           = jobtest.Shortly
)

const patience = jobtest.Patience

type transition = jobtest.Transition

// testConfig gives creates more time than jobtest.Config. A create that a busy machine does not
// finish in time has an unknown outcome.
func testConfig(t testing.TB, url string, change ...func(*config.Config)) *config.Config {
	t.Helper()
	return jobtest.Config(t, url, append([]func(*config.Config){videoRoutes(func(r *config.Route) { r.Timeouts.Create = 10 * time.Second })}, change...)...)
}

// createsSoon is for tests that wait for the create timeout.
var createsSoon = videoRoutes(func(r *config.Route) { r.Timeouts.Create = 2 * time.Second })
