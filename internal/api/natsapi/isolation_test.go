package natsapi_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/subject"
)

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
	if diff := cmp.Diff(before, w.States()); diff != "" {
		t.Errorf("acme's jobs have changed:\n%s", diff)
	}
}
