package queue_test

import (
	"fmt"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// BenchmarkDispatch is a backlog of 600 jobs that n replicas dispatch and take, on one server:
// jobs that are over as soon as they are taken.
func BenchmarkDispatch(b *testing.B) {
	const jobs, places = 600, 50
	for _, count := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprint(count, " replicas"), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				url := brokertest.Alone(b).ClientURL()
				idle := newReplica(b, openAt(b, url), 0)
				for i := range jobs {
					idle.admit(b, fmt.Sprint("t", i%10), fmt.Sprint(i))
				}
				var replicas []*replica
				for range count {
					replicas = append(replicas, newReplica(b, openAt(b, url), places))
				}
				b.StartTimer()
				for _, r := range replicas {
					r.start(b)
				}
				takeAll(b, replicas, jobs)
			}
		})
	}
}
