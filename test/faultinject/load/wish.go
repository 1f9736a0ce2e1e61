package load

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/test/faultinject/brief"
	"github.com/genbus/genbus/test/faultinject/check"
)

// wish is one request and the client's plan for the job.
type wish struct {
	name   string // of the client, unique in the run
	tenant Tenant
	kind   subject.Kind
	entry  entry
	marker string
	key    string // request_id, or empty
	stream bool
	body   []byte // as JSON, regardless of the form that is sent
	sum    string // fingerprint of body
	input  string // longest word of body, if long
	// stored is true if the request goes to the object store and its message only names it. NATS
	// only.
	stored bool
	// expires is how long after the request the job may still be submitted. Zero means no limit.
	expires time.Duration

	follow   string        // sse, watch, or empty
	cuts     int           // how often the client closes its followed connection
	reads    bool          // GET until the end
	cancel   time.Duration // delay after the acceptance; zero means never
	repeat   bool          // send the same request again over another ingress
	conflict bool          // send a different body with the same key
	peeks    bool          // access the job as the stranger
	stranger Tenant        // another tenant, if there is one
	rival    string        // what another client sends at the same time with the same key: same, other or nothing
}

// entry is one ingress and form of a request.
type entry struct {
	ingress string // inbox, call, grpc, http
	form    string
	op      check.Op
}

// Forms of a request.
const (
	typed    = "typed"    // Protobuf, field by field
	raw      = "raw"      // Protobuf with the JSON inside
	asJSON   = "json"     // the HTTP body itself
	gateway  = "gateway"  // the Protobuf message as JSON, under /genbus/v1
	wholeRPC = "complete" // CreateChatCompletion
	stream   = "stream"   // StreamChatCompletion
)

var videoEntries = []entry{
	{"inbox", typed, check.OpPublish}, {"inbox", raw, check.OpPublish}, {"inbox", asJSON, check.OpPublish},
	{"call", typed, check.OpCreate}, {"call", asJSON, check.OpCreate},
	{"grpc", typed, check.OpCreate}, {"grpc", raw, check.OpCreate}, {"grpc", raw, check.OpCreate},
	{"http", asJSON, check.OpCreate}, {"http", asJSON, check.OpCreate}, {"http", gateway, check.OpCreate},
}

var chatEntries = []entry{
	{"inbox", typed, check.OpPublish}, {"inbox", asJSON, check.OpPublish},
	{"call", raw, check.OpCreate}, {"call", asJSON, check.OpCreate},
	{"grpc", typed, check.OpCreate}, {"grpc", raw, check.OpCreate},
	{"http", asJSON, check.OpCreate}, {"http", gateway, check.OpCreate},
	{"http", asJSON, check.OpChat}, {"http", asJSON, check.OpChat}, {"http", asJSON, check.OpChat},
	{"http", asJSON, check.OpInline}, {"http", asJSON, check.OpInline},
	{"grpc", wholeRPC, check.OpInline}, {"grpc", stream, check.OpInline},
}

// wish generates the n-th wish.
func (l *Load) wish(n int, shape Shape, r *rand.Rand) wish {
	w := wish{name: fmt.Sprintf("c%d", n), marker: fmt.Sprintf("m%x-%d", l.o.Seed, n), kind: subject.Video}
	long := lengths{}
	if shape == Large || shape == Duplicates || shape == "" && chance(r, largeShare) {
		long = drawLengths(l.o.MaxPayload, r)
	}
	if chance(r, 0.4) {
		w.kind = subject.Chat
		w.entry, w.stream = pick(r, chatEntries), chance(r, 0.7)
		switch w.entry.form {
		case wholeRPC:
			w.stream = false
		case stream:
			w.stream = true
		}
		w.write(chatBody(pick(r, l.o.ChatModels), w.marker, w.stream, long, r))
	} else {
		w.entry = pick(r, videoEntries)
		w.write(videoBody(pick(r, l.o.VideoModels), w.marker, long, r))
	}
	w.plan(r)
	tenants := l.o.Tenants
	mine := r.IntN(len(tenants))
	w.tenant, w.stranger = tenants[mine], tenants[(mine+1)%len(tenants)]
	w.peeks = chance(r, 0.2)
	w.shape(shape, long, l.o.MaxPayload, r)
	return w
}

// rivals are the values of rival, weighted by repetition.
var rivals = []string{"same", "other", "", "", "", "", "", ""}

// plan chooses what else the client does in addition to the request.
func (w *wish) plan(r *rand.Rand) {
	keyed := w.entry.op == check.OpChat || w.entry.op != check.OpInline && chance(r, 0.75)
	w.follow, w.cuts, w.reads = pick(r, []string{"sse", "watch", "", ""}), r.IntN(3), chance(r, 0.5)
	if chance(r, 0.08) {
		w.cancel = time.Duration(r.IntN(4000)) * time.Millisecond
	}
	repeat, conflict, rival := chance(r, 0.3), chance(r, 0.1), pick(r, rivals)
	limit := time.Duration(500+r.IntN(20_000)) * time.Millisecond
	if w.entry.form != asJSON && w.entry.op != check.OpInline && chance(r, 0.1) {
		w.expires = limit
	}
	if keyed {
		w.key = "key-" + w.marker
	}
	if keyed && w.expires == 0 {
		w.repeat, w.conflict, w.rival = repeat, conflict, rival
	}
}

func (w *wish) write(body []byte) {
	sum := sha256.Sum256(body)
	w.body, w.sum, w.input = body, hex.EncodeToString(sum[:8]), brief.Longest(string(body))
}

// videoBody requests a video that takes some seconds.
func videoBody(model, marker string, long lengths, r *rand.Rand) []byte {
	body := map[string]any{
		"model": model, "prompt": prompt(marker, r), "duration": 5,
		"metadata": map[string]any{"sandbox": map[string]any{"duration_ms": 500 + r.IntN(4000)}},
	}
	if long.request > 0 {
		// Put the marker first, because the dead letter of a rejected request may contain only the
		// beginning of the body.
		body["image"] = "data:image/png;mark=" + marker + ";base64," + base64Word(long.request, r)
	}
	return encode(body)
}

// chatBody requests a reply that differs between attempts, because a stream contains the time of
// each of its pieces.
func chatBody(model, marker string, stream bool, long lengths, r *rand.Rand) []byte {
	text := prompt(marker, r)
	if long.request > 0 {
		text += " " + base64Word(long.request, r)
	}
	sandbox := map[string]any{"chunks": 3 + r.IntN(40), "chunk_interval_ms": 5 + r.IntN(60), "timestamps": true}
	if long.reply > 0 {
		sandbox["big_chunk_bytes"] = long.reply
	}
	if r.IntN(4) == 0 {
		sandbox["odd_events"] = true
	}
	return encode(map[string]any{
		"model": model, "stream": stream, "messages": []any{map[string]any{"role": "user", "content": text}}, "sandbox": sandbox,
	})
}

// prompt returns a prompt of random length, so that answers that contain the length differ.
func prompt(marker string, r *rand.Rand) string {
	return "tell me of the sea" + strings.Repeat(" and the sea", r.IntN(20)) + strings.Repeat("!", r.IntN(11)) + " mark=" + marker
}

func encode(v any) []byte {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil // maps of strings and numbers always encode
	}
	return data
}

// again returns the same request over another ingress whose answer names the job.
func (w wish) again() wish {
	w.entry = entry{"http", asJSON, check.OpCreate}
	return w
}

// other returns a different request with the same key.
func (w wish) other() wish {
	w = w.again()
	mark := w.marker + "-other"
	w.write([]byte(strings.ReplaceAll(string(w.body), "mark="+w.marker, "mark="+mark)))
	w.marker = mark
	return w
}

func chance(r *rand.Rand, p float64) bool { return r.Float64() < p }

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
