package natsapi_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// downloaded is the replies to one request for content.
type downloaded struct {
	data        []byte
	pieces      int
	first, last nats.Header
	from        int64  // position of the first byte
	size        string // of the file
	answer      []byte // of the last reply
}

// download requests content as JSON and reads the replies up to the last one.
func (w *world) download(request string) (d downloaded) {
	w.T.Helper()
	replies := w.request(request)
	for {
		m, err := replies.NextMsg(brokertest.Patience)
		if err != nil {
			w.T.Fatalf("%s: %v after %d pieces", request, err, d.pieces)
		}
		if d.first == nil {
			d.first = m.Header
		}
		if m.Header.Get(subject.HeaderEnd)+m.Header.Get(subject.HeaderErrorCode) != "" {
			d.last, d.answer = m.Header, m.Data
			return d
		}
		var from, to int64
		if _, err := fmt.Sscanf(m.Header.Get(subject.HeaderContentRange), "bytes %d-%d/%s", &from, &to, &d.size); err != nil || to-from+1 != int64(len(m.Data)) {
			w.T.Fatalf("%d bytes with %v: %v", len(m.Data), m.Header, err)
		}
		if d.pieces == 0 {
			d.from = from
		} else if from != d.from+int64(len(d.data)) {
			w.T.Errorf("after %d bytes came %v", len(d.data), m.Header)
		}
		d.data, d.pieces = append(d.data, m.Data...), d.pieces+1
	}
}

func (w *world) request(request string) *nats.Subscription {
	w.T.Helper()
	nc := w.Broker.Conn()
	replies := apitest.Must[*nats.Subscription](w.T)(nc.SubscribeSync(nc.NewInbox()))
	m := &nats.Msg{Subject: w.Broker.Names().Content("default"), Reply: replies.Subject, Header: asJSON, Data: []byte(request)}
	if err := nc.PublishMsg(m); err != nil {
		w.T.Fatal(err)
	}
	return replies
}

func TestContentByRequest(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		serve http.HandlerFunc
		size  string // as reported
	}{
		"ranges": {apitest.ServeFilm, "1000"},
		"no ranges": {func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			apitest.ServeFilm(w, r)
		}, "1000"},
		"neither ranges nor a length": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			_, _ = w.Write(apitest.Film)
		}, "*"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, row.serve)))
			w.Calls()
			id := w.Completed(&genbusv1.Video{})
			for members, part := range map[string][2]int{
				``: {0, 1000}, `,"offset":10`: {10, 1000}, `,"offset":10,"length":20`: {10, 30}, `,"length":"999"`: {0, 999}, `,"offset":990,"length":100`: {990, 1000},
			} {
				d := w.download(`{"id":"` + id + `"` + members + `}`)
				if !bytes.Equal(d.data, apitest.Film[part[0]:part[1]]) || d.from != int64(part[0]) || d.size != row.size ||
					d.last.Get(subject.HeaderEnd) != subject.EndComplete || d.first.Get(subject.HeaderContentType) != "video/mp4" || d.first.Get(subject.HeaderJobID) != id {
					t.Errorf("%s: %d bytes from %d of %s, %v, %v", members, len(d.data), d.from, d.size, d.first, d.last)
				}
				if strings.HasPrefix(name, "ranges") && d.first.Get(subject.HeaderETag) != apitest.FilmTag {
					t.Errorf("%s: %v", members, d.first)
				}
			}
			d := w.download(`{"id":"` + id + `","offset":5000}`)
			if d.pieces > 0 || d.last.Get(subject.HeaderErrorCode) != "invalid_request" || !strings.Contains(string(d.answer), "5000 is beyond the file") {
				t.Errorf("beyond the file: %v %s", d.last, d.answer)
			}
		})
	}
}

// TestContentInSeveralRequests checks that one request returns a bounded part of a large file, and
// that the next one continues it.
func TestContentInSeveralRequests(t *testing.T) {
	t.Parallel()
	const limit = 16 * 128 << 10
	film := make([]byte, 2*limit+1)
	for i := range film {
		film[i] = byte(i >> 10)
	}
	w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		apitest.ServeRanges(w, r, film)
	})))
	w.Calls()
	id := w.Completed(&genbusv1.Video{})
	var all []byte
	for _, want := range []struct {
		bytes, pieces int
		end           string
	}{{limit, 16, subject.EndMore}, {limit, 16, subject.EndMore}, {1, 1, subject.EndComplete}} {
		d := w.download(fmt.Sprintf(`{"id":%q,"offset":%d}`, id, len(all)))
		if len(d.data) != want.bytes || d.pieces != want.pieces || d.last.Get(subject.HeaderEnd) != want.end || d.size != strconv.Itoa(len(film)) {
			t.Errorf("at %d: %d bytes in %d pieces of %s, %v", len(all), len(d.data), d.pieces, d.size, d.last)
		}
		all = append(all, d.data...)
	}
	if !bytes.Equal(all, film) {
		t.Error("the parts are not the file")
	}
}

// TestContentThatIsCutOff checks that an error ends the replies, and that the caller can resume.
func TestContentThatIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Range"), "bytes=0-") {
			w.Header().Set("Content-Type", "video/mp4")
			w.Header().Set("Content-Range", "bytes 0-999/1000")
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(apitest.Film[:400])
			return
		}
		apitest.ServeFilm(w, r)
	})))
	w.Calls()
	id := w.Completed(&genbusv1.Video{})
	d := w.download(`{"id":"` + id + `"}`)
	if d.last.Get(subject.HeaderErrorCode) != "content_unavailable" || d.last.Get(subject.HeaderJobID) != id {
		t.Errorf("%v %s", d.last, d.answer)
	}
	rest := w.download(fmt.Sprintf(`{"id":%q,"offset":%d}`, id, len(d.data)))
	if len(d.data) != 400 || rest.last.Get(subject.HeaderEnd) != subject.EndComplete || !bytes.Equal(append(d.data, rest.data...), apitest.Film) {
		t.Errorf("%d bytes before the error; the rest: %v", len(d.data), rest.last)
	}
	if d := w.download(`{"id":"` + w.CreateVideo() + `"}`); d.last.Get(subject.HeaderErrorCode) != "content_not_ready" {
		t.Errorf("of a queued task: %v", d.last)
	}
}

// TestContentInShortParts checks that a part shorter than requested is not taken for the rest of the
// file, and that nothing is left after the last byte.
func TestContentInShortParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		var from int
		if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil {
			r.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, from+399))
		}
		apitest.ServeFilm(w, r)
	})))
	w.Calls()
	id := w.Completed(&genbusv1.Video{})
	var all []byte
	for _, want := range []string{subject.EndMore, subject.EndMore, subject.EndComplete, subject.EndComplete} {
		d := w.download(fmt.Sprintf(`{"id":%q,"offset":%d}`, id, len(all)))
		if d.last.Get(subject.HeaderEnd) != want {
			t.Errorf("from byte %d: %d bytes, %v %s", len(all), len(d.data), d.last, d.answer)
		}
		all = append(all, d.data...)
	}
	if !bytes.Equal(all, apitest.Film) {
		t.Errorf("%d bytes", len(all))
	}
}

// TestSlowContentDelaysNoCalls checks that a tenant has a limited number of downloads, and that
// downloads from a slow upstream leave other requests their slots.
func TestSlowContentDelaysNoCalls(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 64), make(chan struct{})
	w := newWorld(t, apitest.UpstreamAt(apitest.NewHost(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-answer
		apitest.ServeFilm(w, r)
	})))
	w.Calls()
	id := w.Completed(&genbusv1.Video{})
	w.Listed(id, genbusv1.JobStatus_JOB_STATUS_COMPLETED)
	var all []*nats.Subscription
	for range 4 { // as many as a tenant may have
		all = append(all, w.request(`{"id":"`+id+`"}`))
		<-asked
	}
	refused := w.request(`{"id":"` + id + `"}`)
	n := w.Broker.Names()
	w.askJSON(n.Get(subject.Video, "default"), `{"id":"`+id+`"}`)
	w.askJSON(n.List(subject.Video, "default"), `{}`)
	w.askJSON(n.Call(subject.Video, "default"), apitest.VideoBody)
	if m, err := refused.NextMsg(brokertest.Patience); err != nil || m.Header.Get(subject.HeaderErrorCode) != "rate_limited" {
		t.Errorf("one too many: %v, %v", m, err)
	}
	close(answer)
	for _, replies := range all {
		if m, err := replies.NextMsg(brokertest.Patience); err != nil || m.Header.Get(subject.HeaderErrorCode) != "" {
			t.Errorf("%v, %v", m, err)
		}
	}
}

// TestContentGoesToNoEvent checks that content is not sent to a reserved subject that a caller names
// as reply subject.
func TestContentGoesToNoEvent(t *testing.T) {
	t.Parallel()
	host := apitest.NewHost(t, apitest.ServeFilm)
	w := newWorld(t, apitest.UpstreamAt(host))
	stop := w.Calls()
	id, n, nc := w.Completed(&genbusv1.Video{}), w.Broker.Names(), w.Broker.Conn()
	event := n.Task(subject.Video, "globex", "video_x")
	heard := apitest.Must[*nats.Subscription](t)(nc.SubscribeSync(event))
	for _, subj := range []string{n.Content("default"), n.Get(subject.Video, "default"), n.List(subject.Video, "default")} {
		if err := nc.PublishMsg(&nats.Msg{Subject: subj, Reply: event, Header: asJSON, Data: []byte(`{"id":"` + id + `"}`)}); err != nil {
			t.Fatal(err)
		}
	}
	stop() // answers requests that have arrived
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := heard.Pending(); err != nil || n != 0 || len(host.Requests()) != 0 {
		t.Errorf("%d answers, %d requests to the upstream, %v", n, len(host.Requests()), err)
	}
}
