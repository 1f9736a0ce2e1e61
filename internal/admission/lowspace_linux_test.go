package admission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// TestNoJobsOnANearlyFullDisk checks that jobs are refused while the disk has little space, and that
// accepted ones can be read.
func TestNoJobsOnANearlyFullDisk(t *testing.T) {
	t.Parallel()
	dir, inside := brokertest.SmallDisk(t)
	if !inside {
		return
	}
	s := setup(t, brokertest.Open(t, broker.Options{
		Names: subject.Default(), Logger: brokertest.Logger(t), Embedded: broker.Embedded{DataDir: filepath.Join(dir, "data"), NoSync: true},
	}))
	accepted, err := s.Admit(t.Context(), video("before", "a cat"))
	if err != nil {
		t.Fatal(err)
	}
	untilRoom := func(room bool) {
		t.Helper()
		for until := time.Now().Add(brokertest.Patience); (s.b.RoomForJobs() == nil) != room; {
			if broker.Wait(t.Context(), time.Millisecond) != nil || time.Now().After(until) {
				t.Fatalf("room for jobs: %v", s.b.RoomForJobs())
			}
		}
	}
	filler := filepath.Join(dir, "filler")
	brokertest.FillDisk(t, filler, 96<<20)
	untilRoom(false)
	_, err = s.Admit(t.Context(), video("meanwhile", "a dog"))
	if f := errcode.From(err); f.Code != errcode.BrokerUnavailable || f.RetryAfter == 0 || !strings.Contains(f.Message, "nothing was accepted") {
		t.Errorf("a new job: %v", err)
	}
	if _, err := s.log.Get(t.Context(), accepted.Name()); err != nil || s.log.Trouble() != nil {
		t.Errorf("the accepted job: %v; the trouble: %v", err, s.log.Trouble())
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	untilRoom(true)
	if _, err := s.Admit(t.Context(), video("after", "a bird")); err != nil {
		t.Error(err)
	}
}
