package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
)

// bulk sends a bulk action and reads its progress to the end.
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

// TestBulkActionsStreamProgress as server-sent events; an error before the first is a status.
func TestBulkActionsStreamProgress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.WithOperator)
	w.PutLetter(apitest.OrphanedLetter("acme"))
	w.PutLetter(apitest.OrphanedLetter("globex"))
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
