package httpapi_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/config"
)

func (w *world) bulk(path, body string) (all []*genbusv1.BulkProgress) {
	w.T.Helper()
	for _, e := range w.Open(w.Request(http.MethodPost, "/genbus/v1/operator/"+path, body, apitest.ByOperator...)).Rest() {
		p := &genbusv1.BulkProgress{}
		if err := protojson.Unmarshal([]byte(e.Data), p); err != nil || e.Name != "genbus.bulk.progress.v1" {
			w.T.Fatalf("%v: %v", e, err)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		w.T.Fatal("no progress")
	}
	return all
}

// TestBulkActionsStreamProgress checks that progress is streamed as server-sent events and that an
// error before the first one is a status.
func TestBulkActionsStreamProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.WithOperator)
	w.PutDeadLetter(apitest.OrphanedDeadLetter("acme"))
	w.PutDeadLetter(apitest.OrphanedDeadLetter("globex"))
	counted := w.bulk("dead-letters/drop", `{"filter":{"tenant":"acme"},"dry_run":true}`)
	if len(counted) != 1 || counted[0].GetTotal() != 1 || counted[0].GetEnded() {
		t.Fatalf("%v", counted)
	}
	run := `{"filter":{"tenant":"acme"},"token":"` + counted[0].GetToken() + `"}`
	all := w.bulk("dead-letters/drop", run)
	if last := all[len(all)-1]; !last.GetEnded() || last.GetChanged() != 1 || last.GetTotal() != 1 {
		t.Errorf("%v", all)
	}
	if again := w.bulk("dead-letters/drop", run); !again[len(again)-1].GetEnded() || again[0].GetTotal() != 0 {
		t.Errorf("once more: %v", again)
	}
	for body, want := range map[string]string{
		`{"filter":{"tenant":"globex"},"token":"` + counted[0].GetToken() + `"}`: "token",
		`{"filter":{"tenant":"acme"}}`:                                           "token",
		`{"everything":true}`:                                                    "token",
		`{"filter":{"color":"red"}}`:                                             "color",
		`{`:                                                                      "DropDeadLettersRequest",
	} {
		if a := w.Do(http.MethodPost, "/genbus/v1/operator/dead-letters/drop", body, apitest.ByOperator...); a.Status != http.StatusBadRequest || !strings.Contains(a.Body, want) {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
}

// TestARunThatIsStoppedSaysSo checks that a stopped run ends with an error event, pings during long
// steps, and stops when the client leaves.
func TestARunThatIsStoppedSaysSo(t *testing.T) {
	t.Parallel()
	for name, stop := range map[string]func(w *world, leave func()){
		"drain": func(w *world, _ func()) { w.Drain(nil) },
		"leave": func(w *world, leave func()) {
			leave()
			w.Await("the handler has noticed", func() bool {
				return w.counter("genbus_http_requests_total", map[string]string{"route": "POST /genbus/v1/operator/dead-letters/attach"}) == 2
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			silent, reached, release := apitest.SilentUpstream(t)
			w := newWorld(t, apitest.WithOperator, silent, func(c *config.Config) { c.HTTP.SSEPing = 10 * time.Millisecond })
			m := &genbusv1.AttachUpstreamTasksRequest{Tasks: w.LostTasks(10), DryRun: true}
			asJSON := func() string { return string(apitest.Must[[]byte](t)(protojson.Marshal(m))) }
			m.Token = w.bulk("dead-letters/attach", asJSON())[0].GetToken()
			m.DryRun = false
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r := w.Request(http.MethodPost, "/genbus/v1/operator/dead-letters/attach", asJSON(), apitest.ByOperator...)
			res, err := w.Client.Do(r.WithContext(ctx))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			for range 8 {
				<-reached
			}
			lines := bufio.NewScanner(res.Body)
			for pinged := false; !pinged && lines.Scan(); { // after the first progress
				pinged = strings.HasPrefix(lines.Text(), ": ping")
			}
			stop(w, leave)
			release()
			var last string
			for lines.Scan() {
				if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
					last = event
				}
			}
			if name == "drain" && last != "genbus.error.v1" {
				t.Errorf("the last event is %q", last)
			}
			if r := w.BulkRecord(); r.GetOutcome() != genbusv1.AuditRecord_OUTCOME_FAILED || r.GetBulk().GetTotal() != 10 || r.GetBulk().GetDone() < 8 {
				t.Errorf("%v", r)
			}
		})
	}
}
