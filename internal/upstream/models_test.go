package upstream

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestListModels(t *testing.T) {
	t.Parallel()
	ep := testEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Header.Get("Authorization") != "Bearer "+testKey {
			t.Errorf("request = %s %v", r.URL.Path, r.Header)
		}
		_, _ = io.WriteString(w, `{"object":"list","success":true,"data":[
			{"id":"a","object":"model","created":1626777600,"owned_by":"o","supported_endpoint_types":["openai"]},
			{"id":"b","created":"soon","owned_by":null}, {"object":"model"}, 7, {"id":8}]}`)
	})
	got, err := ListModels(t.Context(), ep)
	if err != nil {
		t.Fatal(err)
	}
	want := []Model{
		{ID: "a", Created: 1626777600, OwnedBy: "o", Raw: []byte(`{"id":"a","object":"model","created":1626777600,"owned_by":"o","supported_endpoint_types":["openai"]}`)},
		{ID: "b", Raw: []byte(`{"id":"b","created":"soon","owned_by":null}`)},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("models (-want +got):\n%s", diff)
	}
}

// TestParseModels checks every form of an answer, and that Raw holds all members as written.
func TestParseModels(t *testing.T) {
	t.Parallel()
	entry := `{"id":"a", "supported_endpoint_types":["openai"], "price":1.50}`
	want := []Model{{ID: "a", Raw: []byte(entry)}}
	for _, body := range []string{
		`{"data":[` + entry + `]}`,
		`{"success":true,"data":[` + entry + `],"object":"list"}`,
		`{"object":"list","data":[` + entry + `],"first_id":"a","has_more":false}`,
		`[` + entry + `]`,
		"\n[null, " + entry + `, {}, "b"]`,
	} {
		got, err := parseModels([]byte(body))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", body, err, diff)
		}
	}
	for _, body := range []string{`[]`, `{"data":[]}`} {
		if got, err := parseModels([]byte(body)); len(got) != 0 || err != nil {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
}

func TestListModelsErrors(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, body string
		status     int
		said       bool
		code       string
	}{
		{"refused", `{"error":{"message":"no","code":"bad_key"}}`, 401, true, "bad_key"},
		{"page", `<html>`, 200, false, ""},
		{"no data", `{"object":"list"}`, 200, false, ""},
		{"null data", `{"data":null}`, 200, false, ""},
		{"data is no list", `{"data":{}}`, 200, false, ""},
		{"cut off", `[{"id":"a"}`, 200, false, ""},
		{"error in 200", `{"success":false,"message":"no","code":"bad_key"}`, 200, true, "bad_key"},
		{"redirect", ``, 302, false, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ep := testEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			_, err := ListModels(t.Context(), ep)
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Op != "models" || e.HTTPStatus != c.status || e.Reported != c.said || e.Code != c.code {
				t.Errorf("error = %+v", err)
			}
		})
	}
}

func FuzzParseModels(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"a","created":1}]}`))
	f.Add([]byte(`{"data":null}`))
	f.Add([]byte(`[{"id":"a","supported_endpoint_types":["openai"]},{"id":7},null]`))
	f.Add([]byte(`{"success":true,"data":[{"id":"a","owned_by":"o"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		models, err := parseModels(body)
		if err != nil {
			return
		}
		for _, m := range models {
			if m.ID == "" || m.Created < 0 || len(m.Raw) == 0 {
				t.Errorf("bad model %+v", m)
			}
		}
	})
}
