package joblog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/joblog"
)

// TestEachLastEvent proves that EachLastEvent reports the last event of every job and returns.
func TestEachLastEvent(t *testing.T) {
	t.Parallel()
	brokertest.Each(t, func(t *testing.T, open func(testing.TB) *broker.Broker) {
		l, told := newLog(t, open(t), ""), map[string]string{}
		tell := func(n joblog.Summary) { told[n.Name.ID] = n.Status }
		if err := l.EachLastEvent(t.Context(), tell); err != nil || len(told) != 0 {
			t.Errorf("an empty log tells %v, %v", told, err)
		}
		submit(t, l, "video_1")
		complete(t, l, submit(t, l, "video_2"))
		caughtUp, stop := context.WithTimeout(t.Context(), brokertest.Patience)
		defer stop()
		for {
			if err := l.EachLastEvent(t.Context(), tell); err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff(map[string]string{"video_1": "queued", "video_2": "completed"}, told)
			if diff == "" {
				break
			}
			if broker.Wait(caughtUp, 10*time.Millisecond) != nil {
				t.Fatal(diff)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.EachLastEvent(ended, tell); !errors.Is(err, context.Canceled) {
			t.Errorf("after its end: %v", err)
		}
	})
}
