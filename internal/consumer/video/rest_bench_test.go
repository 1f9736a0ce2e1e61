package video

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/consumer/jobtest"
)

// BenchmarkDue measures the memory of a job that is due but has no poll slot, compared with one at
// rest.
func BenchmarkDue(b *testing.B) {
	up := httptest.NewServer(http.NotFoundHandler())
	b.Cleanup(up.Close)
	p := newProcess(b, brokertest.Single(b), up.URL)
	r := p.runner()
	r.polls = newPollSlots(0)
	var jobs []*job
	for i := range 1000 {
		item := jobtest.PastItem(fmt.Sprint("due", i))
		jobtest.PastOf(b, p.Log, item, submittedUpstream(fmt.Sprint("up_", i))...)
		j := p.heldBy(b, r, item, 2)
		j.task.pollAt = time.Now().Add(time.Hour)
		step(j)
		jobs = append(jobs, j)
	}
	for b.Loop() {
		rest := inUse()
		for _, j := range jobs {
			j.wakeUp()
		}
		b.ReportMetric(float64(inUse()-rest)/float64(len(jobs)), "B/task")
		r.polls.waiting = nil
		for _, j := range jobs {
			j.awaiting = false
		}
	}
	for _, j := range jobs {
		j.HandOver()
	}
}

// inUse returns the live heap and stacks of the process, in bytes.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
