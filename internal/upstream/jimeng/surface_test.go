package jimeng

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/body"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

const queryBodyText = `{"req_key":"jimeng_t2v_v30","task_id":"video_1"}`

func TestRead(t *testing.T) {
	t.Parallel()
	const v = "&Version=2022-08-31"
	for _, c := range []struct {
		query, body string
		want        upstream.Call
		wrong       string // fields, or the code of another error
	}{
		{"Action=CVSync2AsyncSubmitTask" + v, `{"a": 1}`, upstream.Call{Op: upstream.CreateTask, Body: body.Parse([]byte(`{"a": 1}`))}, ""},
		{"Action=CVSync2AsyncSubmitTask" + v, `no JSON: judged later`, upstream.Call{Op: upstream.CreateTask, Body: body.Parse([]byte(`no JSON: judged later`))}, ""},
		{"x=1&Version=2022-08-31&Action=CVSync2AsyncGetResult", queryBodyText, upstream.Call{Op: upstream.GetTask, ID: "video_1"}, ""},
		{"Action=CVSync2AsyncGetResult" + v, `{"req_key":"k","task_id":"t","req_json":"{}"}`, upstream.Call{Op: upstream.GetTask, ID: "t"}, ""},
		{"", "", upstream.Call{}, "Action Version"},
		{v, "", upstream.Call{}, "Action"},
		{"Action=" + v, "", upstream.Call{}, "Action"},
		{"Action=cvsync2asyncsubmittask" + v, "", upstream.Call{}, "Action"},
		{"Action=CVProcess" + v, "", upstream.Call{}, "Action"},
		{"Action=CVSync2AsyncSubmitTask&Action=CVSync2AsyncSubmitTask" + v, "", upstream.Call{}, "Action"},
		{"Action=CVSync2AsyncSubmitTask&Action=CVSync2AsyncGetResult" + v, "", upstream.Call{}, "Action"},
		{"Action=CVSync2AsyncSubmitTask&Version=2023-01-01", "", upstream.Call{}, "Version"},
		{"Action=CVSync2AsyncSubmitTask" + v + v, "", upstream.Call{}, "Version"},
		{"action=CVSync2AsyncSubmitTask" + v, "", upstream.Call{}, "Action"},
		{"Action=CVSync2AsyncSubmitTask;x" + v, "", upstream.Call{}, "query"},
		{"Action=CVSync2AsyncSubmitTask&%zz" + v, "", upstream.Call{}, "query"},
		{"Action=CVSync2AsyncGetResult" + v, `{}`, upstream.Call{}, "req_key task_id"},
		{"Action=CVSync2AsyncGetResult" + v, `{"req_key":"k","task_id":7}`, upstream.Call{}, "task_id"},
		{"Action=CVSync2AsyncGetResult" + v, `{"req_key":"k","task_id":""}`, upstream.Call{}, "task_id"},
		{"Action=CVSync2AsyncGetResult" + v, `{"task_id":"t"}`, upstream.Call{}, "req_key"},
		{"Action=CVSync2AsyncGetResult" + v, ``, upstream.Call{}, string(errcode.InvalidJSON)},
		{"Action=CVSync2AsyncGetResult" + v, `[1]`, upstream.Call{}, string(errcode.InvalidJSON)},
	} {
		r := httptest.NewRequest(http.MethodPost, "/jimeng/?"+c.query, nil)
		got, err := surface{}.Read(r, []byte(c.body))
		if c.wrong == "" {
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(body.Document{})); err != nil || diff != "" {
				t.Errorf("%s: %v (-want +got):\n%s", c.query, err, diff)
			}
			continue
		}
		f := errcode.From(err)
		if f == nil || what(f) != c.wrong || f.Message == "" {
			t.Errorf("%s %s: %+v, want %s", c.query, c.body, err, c.wrong)
		}
	}
}

// what returns the fields of an invalid request, or the code of another error.
func what(f *errcode.Error) string {
	if f.Code != errcode.InvalidRequest {
		return string(f.Code)
	}
	var fields []string
	for _, v := range f.Violations {
		fields = append(fields, v.Field)
	}
	return strings.Join(fields, " ")
}

func TestReadNamesWhatIsAccepted(t *testing.T) {
	t.Parallel()
	_, err := surface{}.Read(httptest.NewRequest(http.MethodPost, "/jimeng/?Action=CVProcess&Version=1", nil), nil)
	f := errcode.From(err)
	if len(f.Violations) != 2 {
		t.Fatalf("violations = %+v", f.Violations)
	}
	for i, words := range [][]string{{"CVSync2AsyncSubmitTask", "CVSync2AsyncGetResult"}, {"2022-08-31"}} {
		for _, w := range words {
			if !strings.Contains(f.Violations[i].Description, w) {
				t.Errorf("%+v does not name %s", f.Violations[i], w)
			}
		}
	}
}

// TestReadOfTooMuch checks that a query that exceeds the limits of JSON is refused with the limit.
func TestReadOfTooMuch(t *testing.T) {
	t.Parallel()
	for want, raw := range map[string]string{
		"levels": `{"a":` + strings.Repeat("[", body.MaxDepth) + strings.Repeat("]", body.MaxDepth) + `}`,
		"values": `{"a":[` + strings.Repeat("0,", body.MaxValues) + `0]}`,
	} {
		_, err := surface{}.Read(httptest.NewRequest(http.MethodPost, "/jimeng/?Action=CVSync2AsyncGetResult&Version=2022-08-31", nil), []byte(raw))
		if f := errcode.From(err); f == nil || f.Code != errcode.InvalidRequest || !strings.Contains(f.Message, want) {
			t.Errorf("too many %s: %v", want, err)
		}
	}
}

// TestPatterns checks that only the segment with its slash is served.
func TestPatterns(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	for _, pattern := range (surface{}).Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		mux.HandleFunc(method+" /jimeng"+path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	}
	for target, want := range map[string]int{
		"/jimeng/": http.StatusTeapot, "/jimeng/?Action=x": http.StatusTeapot, "/jimeng/v1": http.StatusNotFound, "/": http.StatusNotFound,
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodPost, target, nil))
		if w.Code != want {
			t.Errorf("POST %s: %d, want %d", target, w.Code, want)
		}
	}
}

// FuzzRead checks that Read returns either a complete call or an errcode.Error.
func FuzzRead(f *testing.F) {
	f.Add("Action=CVSync2AsyncSubmitTask&Version=2022-08-31", []byte(vectorBody))
	f.Add("Action=CVSync2AsyncGetResult&Version=2022-08-31", []byte(queryBodyText))
	f.Add("Action=%43VProcess;&Version", []byte(`{"task_id":"\ud800"}`))
	f.Fuzz(func(t *testing.T, query string, raw []byte) {
		r := httptest.NewRequest(http.MethodPost, "/jimeng/", nil)
		r.URL.RawQuery = query
		call, err := surface{}.Read(r, raw)
		if err != nil {
			if c := errcode.CodeOf(err); c != errcode.InvalidRequest && c != errcode.InvalidJSON {
				t.Errorf("error %v", err)
			}
			return
		}
		if (call.Op == upstream.GetTask) != (call.ID != "") || call.Op == 0 || call.RequestID != "" {
			t.Errorf("call = %+v", call)
		}
	})
}
