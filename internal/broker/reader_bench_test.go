package broker_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// BenchmarkLast measures one leader read of a job's log on the embedded server, by the number of
// jobs in the log. Messages have the size of a typical event. docs/decisions.md quotes the result.
func BenchmarkLast(b *testing.B) {
	for _, jobs := range []int{1, 1_000, 20_000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			broker := brokertest.Single(b)
			subjects := make([]string, jobs)
			for i := range subjects {
				subjects[i] = broker.Names().Task(subject.Video, "default", fmt.Sprintf("video_%026d", i))
				if _, err := broker.Publish(b.Context(), msg(subjects[i], "", strings.Repeat("x", 1024))); err != nil {
					b.Fatal(err)
				}
			}
			stream := broker.Names().Tasks()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := broker.Last(b.Context(), stream, subjects[rand.IntN(jobs)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPage measures the direct get of a job's only event, as followers of the job read it.
func BenchmarkPage(b *testing.B) {
	broker := brokertest.Single(b)
	name := broker.Names().Task(subject.Video, "default", fmt.Sprintf("video_%026d", 0))
	if _, err := broker.Publish(b.Context(), msg(name, "", strings.Repeat("x", 1024))); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if page, err := broker.Page(b.Context(), broker.Names().Tasks(), name, 1); err != nil || len(page) != 1 {
			b.Fatal(page, err)
		}
	}
}
