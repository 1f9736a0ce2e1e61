package pool

import (
	"fmt"
	"time"

	"github.com/genbus/genbus/internal/upstream"
)

// pause is a wait that an upstream asked for, for one key or for all its keys. It is reported to
// every caller that arrives during the wait, so it contains none of the upstream's text, which may
// quote another tenant's prompt.
type pause struct {
	key    UpstreamKey
	status int // HTTP
	scope  upstream.Scope
}

func pauseOf(key UpstreamKey, err *upstream.Error) *pause {
	return &pause{key: key, status: err.HTTPStatus, scope: err.Scope}
}

// describe turns e into the error of a chat that arrives before until, with the HTTP status that
// the upstream would return.
func (p *pause) describe(e *upstream.Error, until time.Time) {
	e.HTTPStatus, e.Scope = p.status, p.scope
	e.Message = fmt.Sprintf("upstream %s asked for a pause until %s; try again then", p.key, until.UTC().Format(time.RFC3339))
}
