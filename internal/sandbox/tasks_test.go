package sandbox_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/sandbox"
)

// TestTasksAreListed proves that /tasks lists the newest hundred tasks with their keys and without
// their prompts.
func TestTasksAreListed(t *testing.T) {
	t.Parallel()
	b := setup(t, sandbox.Options{})
	for i := range 101 {
		b.create(t, `{"model":"sandbox-video:duration_ms=600000","prompt":"secret"}`, "Idempotency-Key", fmt.Sprint("k", i))
	}
	b.create(t, `{"model":"sandbox-video:duration_ms=0","prompt":"secret"}`)
	all := b.do(t, http.MethodGet, "/tasks", "")
	listed, _ := at(all.json(t), "tasks").([]any)
	if len(listed) != 100 || at(listed[0], "idempotency_key") != nil || at(listed[1], "idempotency_key") != "k100" || strings.Contains(string(all.body), "secret") {
		t.Fatalf("%d tasks: %s", len(listed), all.body)
	}
	if status := at(listed[1], "status"); status != "queued" {
		t.Errorf("the newest is %v", status)
	}
	one := b.do(t, http.MethodGet, "/tasks?key=k1", "").json(t)
	id, _ := at(one, "tasks", 0, "id").(string)
	if found, _ := at(one, "tasks").([]any); len(found) != 1 || b.poll(t, id).status != http.StatusOK {
		t.Errorf("the task of k1: %v", one)
	}
}
