package natsapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/subject"
)

// without returns the visible parts of an answer without IDs.
func without(m *nats.Msg) map[string]string {
	out := map[string]string{"data": apitest.AnyID.ReplaceAllString(string(m.Data), "ID")}
	for name := range m.Header {
		out[name] = apitest.AnyID.ReplaceAllString(m.Header.Get(name), "ID")
	}
	return out
}

// TestTenantsAreApartOnNATS checks that the subject selects the tenant and that request ids of
// other tenants have no effect.
func TestTenantsAreApartOnNATS(t *testing.T) {
	t.Parallel()
	w := apitest.NewTenancy(t)
	w.Calls()
	before := w.States()
	for kind, row := range map[subject.Kind]struct{ name, body string }{
		subject.Video: {apitest.AcmeOrder, apitest.VideoBody}, subject.Chat: {apitest.AcmeTalk, apitest.TalkBody(apitest.AcmeMark)},
	} {
		header := nats.Header{subject.HeaderContentType: {subject.ContentTypeJSON}, subject.HeaderRequestID: {row.name}}
		m := w.Call(w.Broker.Names().Call(kind, "globex"), header, []byte(row.body))
		id := m.Header.Get(subject.HeaderJobID)
		if m.Header.Get(subject.HeaderErrorCode) != "" || w.IDs()[id] != "" || id != apitest.JobID(kind, "globex", row.name) {
			t.Errorf("%s: job %q, %v %s", kind, id, m.Header, m.Data)
		}
		w.Entry(kind, "globex", id)
	}
	n := w.Broker.Names()
	checked := []string{n.Content("*"), n.Models("*")}
	for _, kind := range subject.Kinds {
		checked = append(checked, n.CallPattern(kind), n.Get(kind, "*"), n.List(kind, "*"), n.Cancel(kind, "*"))
	}
	var served []string
	for _, e := range (&world{w.World}).info().Endpoints {
		served = append(served, e.Subject)
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(checked)), slices.Sorted(slices.Values(served))); diff != "" {
		t.Fatalf("every endpoint needs a check here:\n%s", diff)
	}
	if m := w.Call(n.Models("globex"), nil, nil); w.Reveals(string(m.Data)) {
		t.Errorf("%s", m.Data)
	}
	for id, kind := range w.IDs() {
		for _, of := range []func(tenant string) string{
			func(tenant string) string { return n.Get(kind, tenant) }, func(tenant string) string { return n.Cancel(kind, tenant) }, n.Content,
		} {
			ask := func(tenant, id string) *nats.Msg { return w.Call(of(tenant), asJSON, []byte(`{"id":"`+id+`"}`)) }
			got, want := ask("globex", id), ask("globex", apitest.Never(id))
			if diff := cmp.Diff(without(want), without(got)); diff != "" || !strings.HasSuffix(got.Header.Get(subject.HeaderErrorCode), "_not_found") {
				t.Errorf("%s: acme's %s is not answered as an id that never was:\n%s", of("globex"), id, diff)
			}
		}
		if own := w.Call(n.Get(kind, "acme"), asJSON, []byte(`{"id":"`+id+`"}`)); own.Header.Get(subject.HeaderJobID) != id {
			t.Errorf("acme's own %s: %v", id, own.Header)
		}
		for _, request := range []string{`{}`, `{"page_size":1,"page_token":"` + w.Token + `"}`} {
			if m := w.Call(n.List(kind, "globex"), asJSON, []byte(request)); m.Header.Get(subject.HeaderErrorCode) != "" || w.Reveals(string(m.Data)) {
				t.Errorf("%s: %v %s", n.List(kind, "globex"), m.Header, m.Data)
			}
		}
	}
	if diff := cmp.Diff(before, w.States()); diff != "" {
		t.Errorf("acme's jobs have changed:\n%s", diff)
	}
}
