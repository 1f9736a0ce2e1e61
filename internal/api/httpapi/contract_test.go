package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/api/console"
	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/contract/contracttest"
)

// TestEveryPathIsInTheContract checks that the mux and the document have the same paths, under any
// segments.
func TestEveryPathIsInTheContract(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*config.Config){
		"default": func(*config.Config) {},
		"renamed": func(c *config.Config) { c.HTTP.Segments = map[string]string{"kling": "vendor-a", "jimeng": "vendor-b"} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, change)
			d := apitest.Must[*contracttest.Document](t)(contracttest.Load([]byte(w.Get("/openapi.json").Body)))
			documented := operations(d)
			served := slices.DeleteFunc(w.Handler.Patterns(), func(pattern string) bool { // web pages are not part of the document
				return pattern == "GET /{$}" || pattern == "GET /favicon.ico" || strings.Contains(pattern, " "+console.Path)
			})
			for i, pattern := range served {
				pattern = strings.NewReplacer("{model...}", "{model}", "{$}", "").Replace(pattern)
				if served[i] = pattern; !slices.Contains(documented, pattern) {
					t.Errorf("the document has no %s", pattern)
				}
			}
			for _, operation := range documented {
				// A GET pattern also handles HEAD.
				if !slices.Contains(served, strings.Replace(operation, "HEAD ", "GET ", 1)) {
					t.Errorf("%s is not served", operation)
				}
			}
		})
	}
}

// operations returns the operations of a document, such as "GET /v1/models".
func operations(d *contracttest.Document) (out []string) {
	paths, _ := d.Find("paths").(map[string]any)
	for path := range paths {
		item, _ := d.Find("paths", path).(map[string]any)
		for method := range item {
			out = append(out, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(out)
	return out
}

// TestEveryOperationAnswersAsDocumented calls every operation of the document with the document's
// examples. World.Do checks each answer against the document.
func TestEveryOperationAnswersAsDocumented(t *testing.T) {
	t.Parallel()
	films := apitest.NewHost(t, apitest.ServeFilm)
	w := newWorld(t, privateResults, apitest.WithOperator, keepRequests)
	w.Durables()
	d := apitest.OpenAPI(t, w.Cfg)
	for _, operation := range operations(d) {
		method, template, _ := strings.Cut(operation, " ")
		place := []string{"paths", template, strings.ToLower(method)}
		for name, body := range bodies(t, d, place) {
			path := w.filled(template, method, films.URL)
			if strings.HasPrefix(name, "CVSync2Async") {
				path += "?Version=2022-08-31&Action=" + name
			}
			var headers []string
			if needsOperator(d, place) {
				path, headers = w.filledForOperator(template, method)+requiredQuery(d, place), apitest.ByOperator
			}
			if a := w.Do(method, path, body, headers...); a.Status != http.StatusOK || a.Body == "" && method != http.MethodHead {
				t.Errorf("%s with %s: %d %s", operation, body, a.Status, a.Body)
			}
		}
	}
}

// bodies returns the examples of a body by name. An operation without examples has one empty body.
func bodies(t *testing.T, d *contracttest.Document, place []string) map[string]string {
	t.Helper()
	media, _ := d.Find(append(place, "requestBody", "content", "application/json")...).(map[string]any)
	values := map[string]any{}
	if one, ok := media["example"]; ok {
		values[""] = one
	}
	named, _ := media["examples"].(map[string]any)
	for name, e := range named {
		e, _ := e.(map[string]any)
		values[name] = e["value"]
	}
	if place[2] == "post" && len(values) == 0 {
		t.Errorf("%v has no example of a body", place)
	}
	out := map[string]string{}
	for name, value := range values {
		out[name] = string(apitest.Must[[]byte](t)(json.Marshal(value)))
	}
	if len(out) == 0 {
		out[""] = ""
	}
	return out
}

// needsOperator reports whether an operation accepts only an operator key.
func needsOperator(d *contracttest.Document, place []string) bool {
	wanted, _ := d.Find(append(place, "security")...).([]any)
	if len(wanted) != 1 {
		return false
	}
	scheme, _ := wanted[0].(map[string]any)
	return len(scheme) == 1 && scheme["operatorKey"] != nil
}

// requiredQuery returns the required query parameters of an operation, with the document's
// examples.
func requiredQuery(d *contracttest.Document, place []string) string {
	query := url.Values{}
	list, _ := d.Find(append(place, "parameters")...).([]any)
	for _, p := range list {
		if p, _ := p.(map[string]any); p["in"] == "query" && p["required"] == true {
			query.Set(fmt.Sprint(p["name"]), fmt.Sprint(p["example"]))
		}
	}
	if len(query) == 0 {
		return ""
	}
	return "?" + query.Encode()
}

// filledForOperator fills an operator path with a matching job id, dead letter sequence or route.
func (w *world) filledForOperator(template, method string) string {
	w.T.Helper()
	var id, sequence string
	route := config.SandboxVideoRoute
	switch {
	case strings.HasSuffix(template, "/look-up"):
		sequence = fmt.Sprint(w.PutDeadLetter(apitest.LostDeadLetter("default")))
	case strings.Contains(template, "{sequence}"):
		sequence = fmt.Sprint(w.PutDeadLetter(apitest.OrphanedDeadLetter("default")))
	case strings.Contains(template, "/orphans/"):
		route = "removed"
	case strings.Contains(template, "{id}") && (method == http.MethodDelete || strings.HasSuffix(template, "/retry")):
		id = w.CreateVideo()
		w.EndVideo(w.StartVideo("default", id))
		w.letGo()
	case strings.Contains(template, "{id}"):
		id = w.CreateVideo()
	}
	return strings.NewReplacer("{id}", id, "{sequence}", sequence, "{kind}", "video", "{name}", route).Replace(template)
}

// filled fills a path with a matching job id: an ended job for events and content.
func (w *world) filled(template, method, films string) string {
	w.T.Helper()
	var id string
	switch {
	case !strings.Contains(template, "{"):
	case strings.Contains(template, "/chats/"):
		id = w.Post("/genbus/v1/chats", `{"chat":{"model":"sandbox-chat","messages":[{"role":"user","text":"hi"}]}}`).Header.Get("Genbus-Job-Id")
		e := w.StartChat("default", id)
		w.Chunk(e, 0, `{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hi"}}]}`)
		w.EndChat(e, `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}]}`, 1)
	case method == http.MethodDelete:
		id = w.CreateVideo()
		w.letGo()
	case strings.HasSuffix(template, "/events"), strings.HasSuffix(template, "/content"):
		id = w.Completed(&genbusv1.Video{Url: films + "/film.mp4", Format: "mp4", DurationSeconds: 5, Width: 1280, Height: 720})
	default:
		id = w.CreateVideo()
	}
	return strings.NewReplacer("{id}", id, "{model}", "sandbox-chat", "{file}", "video.proto").Replace(template)
}
