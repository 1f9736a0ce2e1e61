package api_test

import (
	"strings"
	"testing"
	"time"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/subject"
	"github.com/genbus/genbus/internal/task"
)

// Names that acme gives its requests, and a mark that all its jobs have. globex
// knows the names.
const (
	acmeOrder = "order-7"
	acmeShot  = "shot-7"
	acmeTalk  = "talk-7"
	acmeMark  = "acme-mark-81c2"
)

const operatorKey = "gb_operator-key-0123456789"

// tenancy is a world of two tenants. acme has jobs of every kind, and globex has
// none.
type tenancy struct {
	*world
	// Ids of acme: a queued video and one that has ended, and the same of chats.
	queued, ended, talk, talked string
	// token is a page token of acme's list.
	token string
}

func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	w := &tenancy{world: newWorld(t, upstreamAt(newHost(t, serveFilm)), twoTenants, func(c *config.Config) {
		c.OperatorKeys = []config.OperatorKey{{Name: "ops", Key: config.NewSecret(operatorKey)}}
	})}
	labels := []string{"Genbus-Labels", "mark=" + acmeMark}
	w.queued = w.createVideo(w.acme(append(labels, "Idempotency-Key", acmeOrder)...)...)
	shot := w.post(klingText, `{"model_name":"sandbox-kling","prompt":"`+acmeMark+`","external_task_id":"`+acmeShot+`"}`, w.acme(labels...)...)
	w.ended = shot.header.Get("Genbus-Job-Id")
	w.finish(w.ended)
	talk := func(headers ...string) string {
		a := w.post("/v1/chat/completions", talkBody(acmeMark), w.acme(append(labels, headers...)...)...)
		return a.header.Get("Genbus-Job-Id")
	}
	w.talk = talk("Idempotency-Key", acmeTalk, "Prefer", "respond-async")
	w.talked = talk("Prefer", "respond-async")
	w.endChat(w.startChat("acme", w.talked), `{"id":"x","object":"chat.completion","choices":[],"created":1,"model":"`+acmeMark+`"}`, 0)
	w.await("acme's list", func() bool {
		page := w.get("/genbus/v1/videos?page_size=1", w.acme()...).json(t)
		w.token, _ = page["next_page_token"].(string)
		return w.token != ""
	})
	return w
}

func (w *tenancy) finish(id string) {
	w.t.Helper()
	e := w.startVideo("acme", id)
	next, err := task.Completed(videoOf(e), time.Now(), task.Result{Videos: []*genbusv1.Video{{Url: w.cfg.Upstreams["sandbox"].BaseURL + "/" + acmeMark + ".mp4"}}})
	w.commit(e, next, err)
}

func talkBody(text string) string {
	return `{"model":"sandbox-chat","messages":[{"role":"user","content":"` + text + `"}]}`
}

func (w *tenancy) acme(headers ...string) []string {
	return append([]string{"Authorization", "Bearer key-acme"}, headers...)
}

func (w *tenancy) globex(headers ...string) []string {
	return append([]string{"Authorization", "Bearer key-globex"}, headers...)
}

// ids are all of acme's, by kind.
func (w *tenancy) ids() map[string]subject.Kind {
	return map[string]subject.Kind{w.queued: subject.Video, w.ended: subject.Video, w.talk: subject.Chat, w.talked: subject.Chat}
}

// never is an id that no job has, of the kind of id.
func never(id string) string {
	kind, _, _ := strings.Cut(id, "_")
	return kind + "_" + strings.Repeat("a", 26)
}

// states are the last sequences of acme's jobs, which nobody else changes.
func (w *tenancy) states() map[string]uint64 {
	w.t.Helper()
	out := map[string]uint64{}
	for id, kind := range w.ids() {
		out[id] = w.entry(kind, "acme", id).Seq
	}
	return out
}

// tells reports whether an answer shows anything of acme.
func (w *tenancy) tells(text string) bool {
	for id := range w.ids() {
		if strings.Contains(text, id) {
			return true
		}
	}
	return strings.Contains(text, acmeMark) || strings.Contains(text, "acme")
}
