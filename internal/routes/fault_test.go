package routes_test

import (
	"testing"

	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/routes"
	"github.com/genbus/genbus/internal/upstream"
)

func TestFault(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		err  upstream.Error
		want errcode.Code
	}{
		"slow down":             {upstream.Error{HTTPStatus: 429, Reported: true, Scope: upstream.ScopeKey}, errcode.UpstreamRateLimited},
		"no quota":              {upstream.Error{HTTPStatus: 429, Reported: true, Scope: upstream.ScopeKey, Final: true, Denial: upstream.QuotaDenied}, errcode.UpstreamQuota},
		"a bad key":             {upstream.Error{HTTPStatus: 401, Reported: true, Scope: upstream.ScopeKey, Final: true, Denial: upstream.KeyDenied}, errcode.UpstreamKeyRefused},
		"a gateway's bad key":   {upstream.Error{HTTPStatus: 401, Reported: true, Scope: upstream.ScopeUpstream, Final: true, Denial: upstream.KeyDenied}, errcode.UpstreamKeyRefused},
		"a key for a while":     {upstream.Error{HTTPStatus: 401, Reported: true, Scope: upstream.ScopeKey, Denial: upstream.KeyDenied}, errcode.UpstreamUnavailable},
		"no such model":         {upstream.Error{HTTPStatus: 404, Reported: true, Scope: upstream.ScopeUpstream, Final: true}, errcode.UpstreamRefused},
		"a page for no path":    {upstream.Error{HTTPStatus: 404, Scope: upstream.ScopeUpstream, Final: true}, errcode.UpstreamUnavailable},
		"a page about the body": {upstream.Error{HTTPStatus: 413, Scope: upstream.ScopeRequest, Final: true}, errcode.UpstreamRefused},
		"too long a reply":      {upstream.Error{HTTPStatus: 200, Code: "reply_too_large", Scope: upstream.ScopeRequest, Final: true}, errcode.UpstreamRefused},
		"a timeout":             {upstream.Error{Op: "chat", Code: "idle_timeout", HTTPStatus: 200, Written: true}, errcode.UpstreamTimeout},
		"a proxy's timeout":     {upstream.Error{Op: "chat", HTTPStatus: 504, Written: true}, errcode.UpstreamTimeout},
		"a video's timeout":     {upstream.Error{Op: upstream.OpPoll, Code: "timeout", HTTPStatus: 200, Reported: true, Written: true}, errcode.UpstreamUnavailable},
		"broken":                {upstream.Error{HTTPStatus: 500, Reported: true, Scope: upstream.ScopeUpstream}, errcode.UpstreamUnavailable},
	} {
		got := routes.Fault(&row.err)
		if got.Code != row.want || got.TimedOut != (row.want == errcode.UpstreamTimeout) {
			t.Errorf("%s: %s, %t; want %s", name, got.Code, got.TimedOut, row.want)
		}
	}
}
