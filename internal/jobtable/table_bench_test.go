package jobtable

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/genbus/genbus/internal/subject"
)

const listed = 100_000

// BenchmarkTable measures jobs of 10,000 tenants that begin, change and end, while a given number
// of jobs is unfinished.
func BenchmarkTable(b *testing.B) {
	const tenants = 10_000
	for _, unfinished := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("unfinished=", unfinished), func(b *testing.B) {
			x := New(listed)
			names := make([]string, tenants)
			for i := range names {
				names[i] = fmt.Sprint("tenant-", i)
			}
			put := func(job int, status string) {
				n := subject.JobName{Kind: subject.Video, Tenant: names[job%tenants], ID: fmt.Sprintf("video_%026d", job)}
				x.put(n, Row{Created: int64(job), ID: n.ID, Status: status, unfinished: status != "completed"})
			}
			next := 0
			for ; next < unfinished; next++ {
				put(next, "queued")
			}
			b.ReportAllocs()
			for b.Loop() {
				put(next, "queued")
				put(next, "in_progress")
				put(next-unfinished, "completed")
				next++
			}
			b.ReportMetric(3*float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkOneTenant inserts the rows of one tenant in log order, which is the order of their
// latest events, not of their creation.
func BenchmarkOneTenant(b *testing.B) {
	x := New(listed)
	made := rand.New(rand.NewPCG(1, 2)).Perm(4 * listed)
	i := 0
	for b.Loop() {
		id := fmt.Sprintf("video_%026d", made[i%len(made)])
		x.put(subject.JobName{Kind: subject.Video, Tenant: "acme", ID: id}, Row{Created: int64(made[i%len(made)]), ID: id, Status: "queued", unfinished: true})
		i++
	}
}
