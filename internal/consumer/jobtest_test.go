package consumer

import "github.com/genbus/genbus/internal/consumer/jobtest"

// What the rooms' tests use too, by its name in this package.
var (
	testConfig        = jobtest.Config
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
