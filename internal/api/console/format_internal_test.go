package console

import (
	"html/template"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// TestFormsAgree checks that words agree with counts of any integer type.
func TestFormsAgree(t *testing.T) {
	t.Parallel()
	page := template.Must(template.New("").Funcs(functions).Parse(
		`{{.Overview.GetReplicas}} {{form .Overview.GetReplicas "replica" "replicas"}}, {{.Jobs.GetTotal}} {{form .Jobs.GetTotal "job" "jobs"}}, {{.Record.GetJobs}} {{form .Record.GetJobs "job" "jobs"}}`))
	for n, want := range map[int]string{0: "0 replicas, 0 jobs, 0 jobs", 1: "1 replica, 1 job, 1 job", 2: "2 replicas, 2 jobs, 2 jobs"} {
		var out strings.Builder
		err := page.Execute(&out, map[string]any{
			"Overview": &genbusv1.GetOverviewResponse{Replicas: uint32(n)}, "Jobs": &genbusv1.ListJobsResponse{Total: int64(n)}, "Record": &genbusv1.AuditRecord{Jobs: uint64(n)},
		})
		if err != nil || out.String() != want {
			t.Errorf("%q, %v; want %q", out.String(), err, want)
		}
	}
}
