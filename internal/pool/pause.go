package pool

import (
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// pause is why a key or an upstream is left alone for a while: it has asked for
// that. Everybody who comes meanwhile is told so, and therefore it has nothing of
// the upstream's own words. They are for the job that they were said to, whose
// prompt they may quote, and which may be another tenant's.
type pause struct {
	who    UpstreamKey
	status int // HTTP
	scope  upstream.Scope
}

func pauseOf(who UpstreamKey, err *upstream.Error) *pause {
	return &pause{who: who, status: err.HTTPStatus, scope: err.Scope}
}

// describe makes e the error of a chat that comes before until. It has the status
// that the upstream would have answered with.
func (p *pause) describe(e *upstream.Error, until time.Time) {
	e.HTTPStatus, e.Scope = p.status, p.scope
	e.Message = fmt.Sprintf("upstream %s asked for a pause until %s; try again then", p.who, until.UTC().Format(time.RFC3339))
}
