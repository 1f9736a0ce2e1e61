//go:build unix

package queue_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// BenchmarkDispatch measures how n replicas dispatch and take a backlog of 4,000 jobs of ten
// tenants on one server. Jobs end when they are taken. It reports the time from the first to the
// last job, and the processor time.
func BenchmarkDispatch(b *testing.B) {
	const jobs, measured = 4000, 0
	for _, places := range []int{50, measured} {
		for _, count := range []int{1, 2, 4, 8} {
			b.Run(fmt.Sprintf("ready_jobs %d, %d replicas", places, count), func(b *testing.B) {
				var cpu, took time.Duration
				for b.Loop() {
					b.StopTimer()
					url := brokertest.Alone(b).ClientURL()
					idle := newReplica(b, openAt(b, url), noReadyJobs)
					for i := range jobs {
						idle.admit(b, fmt.Sprint("t", i%10), fmt.Sprint(i))
					}
					var replicas []*replica
					for range count {
						replicas = append(replicas, newReplica(b, openAt(b, url), places))
					}
					before := processTime(b)
					b.StartTimer()
					for _, r := range replicas {
						r.start(b)
					}
					took += drain(b, replicas, jobs)
					cpu += processTime(b) - before
				}
				b.ReportMetric(float64(b.N*jobs)/took.Seconds(), "jobs/s")
				b.ReportMetric(float64(cpu.Microseconds())/float64(b.N*jobs), "cpu-us/job")
			})
		}
	}
}

// drain lets all replicas take jobs until the given number is reached, and returns the time from
// the first to the last.
func drain(b *testing.B, replicas []*replica, jobs int64) time.Duration {
	b.Helper()
	var taken atomic.Int64
	first, last := make(chan time.Time, 1), make(chan time.Time, 1)
	for _, h := range replicas {
		c, err := h.consumer.Consume(func(m jetstream.Msg) {
			h.route.Taken(1)
			_ = m.Ack() // redelivered if lost
			switch taken.Add(1) {
			case 1:
				first <- time.Now()
			case jobs:
				last <- time.Now()
			}
		}, jetstream.PullMaxMessages(100))
		if err != nil {
			b.Fatal(err)
		}
		defer func() {
			c.Stop()
			<-c.Closed()
		}()
	}
	select {
	case end := <-last:
		return end.Sub(<-first)
	case <-time.After(patience):
		b.Fatalf("%d of %d jobs were taken", taken.Load(), jobs)
		return 0
	}
}

// processTime returns the processor time used by this process, including its server and clients.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
