package contract_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/contract/contracttest"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

func openAPI(t *testing.T, o contract.Options) ([]byte, *contracttest.Document) {
	t.Helper()
	raw, err := contract.OpenAPI(o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := contracttest.Load(raw)
	if err != nil {
		t.Fatal(err)
	}
	return raw, d
}

// TestOpenAPIIsInDocs checks that docs/openapi.json is the document with default names.
func TestOpenAPIIsInDocs(t *testing.T) {
	t.Parallel()
	raw, _ := openAPI(t, contract.Options{Names: subject.Default()})
	contract.SameFile(t, "../../docs/openapi.json", raw)
}

// each calls do for every operation.
func each(d *contracttest.Document, do func(where, method string, operation map[string]any)) {
	paths, _ := d.Find("paths").(map[string]any)
	for _, where := range slices.Sorted(maps.Keys(paths)) {
		item, _ := paths[where].(map[string]any)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			operation, _ := item[method].(map[string]any)
			do(where, method, operation)
		}
	}
}

func TestOperationsAreWhole(t *testing.T) {
	t.Parallel()
	_, d := openAPI(t, contract.Options{})
	ids := map[string]bool{}
	each(d, func(where, method string, o map[string]any) {
		name := method + " " + where
		id, _ := o["operationId"].(string)
		if id == "" || ids[id] || o["summary"] == nil || o["tags"] == nil {
			t.Errorf("%s: operationId %q, summary %v, tags %v", name, id, o["summary"], o["tags"])
		}
		ids[id] = true
		for segment := range strings.SplitSeq(where, "/") {
			if strings.HasPrefix(segment, "{") && !declares(d, strings.Trim(segment, "{}"), where, method) {
				t.Errorf("%s: the parameter %s is not declared", name, segment)
			}
		}
		open := o["security"] != nil && len(o["security"].([]any)) == 0
		if _, refuses := o["responses"].(map[string]any)["401"]; refuses == open {
			t.Errorf("%s: it needs no key: %v, and has an answer to a wrong one: %v", name, open, refuses)
		}
	})
}

func declares(d *contracttest.Document, name string, where, method string) bool {
	return slices.ContainsFunc(parameters(d, where, method), func(p map[string]any) bool {
		return p["in"] == "path" && p["name"] == name && p["required"] == true
	})
}

// parameters returns an operation's parameters, resolving references.
func parameters(d *contracttest.Document, where, method string) (out []map[string]any) {
	list, _ := d.Find("paths", where, method, "parameters").([]any)
	for _, p := range list {
		m, _ := p.(map[string]any)
		if to, _ := m["$ref"].(string); to != "" {
			m, _ = d.Find(strings.Split(strings.TrimPrefix(to, "#/"), "/")...).(map[string]any)
		}
		out = append(out, m)
	}
	return out
}

// TestIDsAreOfTheirKind checks the example IDs, from which the page at /docs builds its curl
// commands.
func TestIDsAreOfTheirKind(t *testing.T) {
	t.Parallel()
	_, d := openAPI(t, contract.Options{})
	seen := map[string]int{}
	each(d, func(where, method string, _ map[string]any) {
		kind := "video_"
		if strings.Contains(where, "/chats/") {
			kind = "chat_"
		}
		for _, p := range parameters(d, where, method) {
			if p["in"] != "path" || p["name"] != "id" { // only job IDs
				continue
			}
			seen[kind]++
			if id, _ := p["example"].(string); !strings.HasPrefix(id, kind) {
				t.Errorf("%s %s: the example of id is %q, want %s…", method, where, id, kind)
			}
		}
	})
	if seen["video_"] == 0 || seen["chat_"] == 0 {
		t.Errorf("ids were found %v times", seen)
	}
}

// TestExamplesAreValid checks that the examples of bodies match their schemas.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	_, d := openAPI(t, contract.Options{})
	seen := 0
	check := func(place ...string) {
		media, _ := d.Find(place...).(map[string]any)
		for name, value := range examples(media) {
			seen++
			var err error
			if place[len(place)-1] == "text/event-stream" {
				err = d.CheckAnswer(contracttest.Answer{
					Method: strings.ToUpper(place[2]), Path: place[1], Status: http.StatusOK, Body: []byte(value.(string)),
					Header: http.Header{"Content-Type": {"text/event-stream"}, "X-Request-Id": {"x"}},
				})
			} else {
				err = d.CheckValue(value, append(place, "schema")...)
			}
			if err != nil {
				t.Errorf("example %s of %v: %v", name, place, err)
			}
		}
	}
	each(d, func(where, method string, o map[string]any) {
		content, _ := d.Find("paths", where, method, "requestBody", "content").(map[string]any)
		for media := range content {
			check("paths", where, method, "requestBody", "content", media)
		}
		for status := range o["responses"].(map[string]any) {
			content, _ := d.Find("paths", where, method, "responses", status, "content").(map[string]any)
			for media := range content {
				check("paths", where, method, "responses", status, "content", media)
			}
		}
	})
	if seen < 25 {
		t.Errorf("only %d examples were found", seen)
	}
}

func examples(media map[string]any) map[string]any {
	out := map[string]any{}
	if e, ok := media["example"]; ok {
		out["example"] = e
	}
	named, _ := media["examples"].(map[string]any)
	for name, e := range named {
		out[name] = e.(map[string]any)["value"]
	}
	return out
}

// TestEveryReferenceResolves checks that every reference resolves, and that every schema is used.
func TestEveryReferenceResolves(t *testing.T) {
	t.Parallel()
	raw, d := openAPI(t, contract.Options{})
	used := references(t, raw, d)
	for _, kind := range []string{"schemas", "parameters", "headers", "responses"} {
		all, _ := d.Find("components", kind).(map[string]any)
		for name := range all {
			if !used["#/components/"+kind+"/"+name] {
				t.Errorf("nothing uses the %s %s", kind, name)
			}
		}
	}
}

// references returns everything that a document refers to.
func references(t *testing.T, raw []byte, d *contracttest.Document) map[string]bool {
	t.Helper()
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	walk(root, func(to string) {
		used[to] = true
		if d.Find(strings.Split(strings.TrimPrefix(to, "#/"), "/")...) == nil {
			t.Errorf("nothing stands at %s", to)
		}
	})
	return used
}

func walk(v any, found func(to string)) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			walk(e, found)
		}
	case map[string]any:
		if to, ok := v["$ref"].(string); ok {
			found(to)
		}
		for _, e := range v {
			walk(e, found)
		}
	}
}

func TestVendorsSegmentsAreFollowed(t *testing.T) {
	t.Parallel()
	raw, d := openAPI(t, contract.Options{Segments: map[string]string{"kling": "vendor-a", "jimeng": "vendor-b"}, PublicURL: "https://video.example/"})
	for _, where := range []string{"/vendor-a/v1/videos/text2video/{id}", "/vendor-b/"} {
		if d.Find("paths", where) == nil {
			t.Errorf("there is no %s", where)
		}
	}
	if bytes.Contains(raw, []byte(`"/kling/`)) || bytes.Contains(raw, []byte(`"/jimeng/`)) {
		t.Error("a path has its vendor's own segment still")
	}
	if servers, _ := d.Find("servers").([]any); len(servers) != 1 || servers[0].(map[string]any)["url"] != "https://video.example" {
		t.Errorf("servers %v", servers)
	}
}

// TestEveryErrorOfHTTPIsSomewhere checks that some path lists every error, except those that HTTP
// never returns.
func TestEveryErrorOfHTTPIsSomewhere(t *testing.T) {
	t.Parallel()
	_, d := openAPI(t, contract.Options{})
	elsewhere := []errcode.Code{
		errcode.MethodNotAllowed,                                                     // every path
		errcode.CallerGone,                                                           // a disconnected caller reads no answer
		errcode.CallerDeadline,                                                       // gRPC only: HTTP requests have no deadline
		errcode.SubmissionUnknown, errcode.OrphanedSubmission, errcode.ArchiveFailed, // videos, for which no caller waits
	}
	listed := map[string]bool{}
	refusals, _ := d.Find("components", "responses").(map[string]any)
	for name := range refusals {
		codes, _ := d.Find("components", "responses", name, "headers", "Genbus-Error-Code", "schema", "enum").([]any)
		for _, code := range codes {
			listed[code.(string)] = true
		}
	}
	for _, m := range errcode.Table() {
		if listed[string(m.Code)] == slices.Contains(elsewhere, m.Code) {
			t.Errorf("%s: a path lists it: %v", m.Code, listed[string(m.Code)])
		}
	}
}
