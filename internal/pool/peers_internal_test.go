package pool

import (
	"testing"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/telemetry"
)

// FuzzPeerNotification checks that no peer notification keeps creates from an upstream for more
// than 1.1 times maxTrialWait.
func FuzzPeerNotification(f *testing.F) {
	f.Add([]byte(`{"replica":"other","upstream":"a","wait":15000000000,"next":15000000000}`))
	f.Add([]byte(`{"replica":"other","upstream":"a","wait":9223372036854775807,"next":9223372036854775807}`))
	f.Add([]byte(`{"replica":"other","upstream":"a","wait":-1,"next":-9223372036854775808}`))
	f.Add([]byte(`{"replica":"other","upstream":"a"}`))
	f.Add([]byte(`{"replica":"other","ask":true}`))
	f.Add([]byte(`{"replica":"me","upstream":"a","wait":1,"next":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := New(config.Upstreams{"a": config.NewUpstream("http://a.invalid")}, Options{Metrics: telemetry.NewMetrics("v1")})
		p.handlePeerNotification(data, "me")
		c := p.services["a"].creates
		if most := maxTrialWait + maxTrialWait/10; c.wait < 0 || c.wait > maxTrialWait || time.Until(c.until) > most {
			t.Errorf("a wait of %v until %v", c.wait, c.until)
		}
		if c.closed() != c.until.IsZero() {
			t.Errorf("a wait of %v until %v", c.wait, c.until)
		}
	})
}
