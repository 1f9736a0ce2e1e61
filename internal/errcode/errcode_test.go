package errcode

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
)

var update = flag.Bool("update", false, "write means.gen.go, client/code.gen.go and docs/errors.md")

// TestDeclarationsAreTheTexts proves that the comments of the codes in code.go are the texts of the
// table, of package client and of docs/errors.md.
func TestDeclarationsAreTheTexts(t *testing.T) {
	groups := declarations(t)
	isFile(t, "means.gen.go", meansFile(t, groups))
	isFile(t, "../../client/code.gen.go", clientFile(t, groups))
	sentences := map[Code]string{}
	for _, g := range groups {
		for _, c := range g.codes {
			sentences[c.code] = c.means
		}
	}
	isFile(t, "../../docs/errors.md", markdown(sentences))
}

func isFile(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("%s is out of date; run `go test ./internal/errcode -update`:\n%s", path, diff)
	}
}

// group is a const block of codes in code.go.
type group struct {
	doc   string
	codes []declaration
}

// declaration is a code, with its comment's words, and its sentence for readers.
type declaration struct {
	name       string
	code       Code
	doc, means string
}

func declarations(t *testing.T) (groups []group) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		block, ok := d.(*ast.GenDecl)
		if !ok || block.Tok != token.CONST {
			continue
		}
		g := group{doc: block.Doc.Text()}
		for _, s := range block.Specs {
			spec := s.(*ast.ValueSpec)
			if id, ok := spec.Type.(*ast.Ident); !ok || id.Name != "Code" {
				continue
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			c := declaration{name: spec.Names[0].Name, code: Code(value), doc: spec.Doc.Text()}
			text, ok := strings.CutPrefix(strings.Join(strings.Fields(c.doc), " "), c.name+" means that ")
			if !ok || !strings.HasSuffix(text, ".") {
				t.Fatalf("the comment of %s is %q; want one sentence that begins with %q", c.name, c.doc, c.name+" means that ")
			}
			c.means = strings.ToUpper(text[:1]) + text[1:]
			g.codes = append(g.codes, c)
		}
		if len(g.codes) > 0 {
			groups = append(groups, g)
		}
	}
	return groups
}

const generatedHead = "// Code generated from internal/errcode/code.go by go test ./internal/errcode -update. DO NOT EDIT.\n\n"

func meansFile(t *testing.T, groups []group) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(generatedHead + "package errcode\n\nvar means = map[Code]string{\n")
	for _, g := range groups {
		for _, c := range g.codes {
			fmt.Fprintf(&b, "\t%s: %q,\n", c.name, c.means)
		}
	}
	b.WriteString("}\n")
	return formatted(t, b.String())
}

func clientFile(t *testing.T, groups []group) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(generatedHead + "package client\n")
	comment := func(text string) {
		for line := range strings.Lines(text) {
			b.WriteString("// " + line)
		}
	}
	for _, g := range groups {
		b.WriteString("\n")
		comment(g.doc)
		b.WriteString("const (\n")
		for _, c := range g.codes {
			comment("Err" + c.doc)
			fmt.Fprintf(&b, "Err%s Code = %q\n", c.name, c.code)
		}
		b.WriteString(")\n")
	}
	return formatted(t, b.String())
}

func formatted(t *testing.T, source string) string {
	t.Helper()
	out, err := format.Source([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// markdown returns the content of docs/errors.md.
func markdown(means map[Code]string) string {
	var b strings.Builder
	b.WriteString("# Errors\n\n" +
		"This page tells callers and operators what each error code means and what to do about it.\n" +
		"It is generated from `internal/errcode`; do not edit it.\n\n" +
		"Every interface reports the same codes, and codes are never renamed.\n\n" +
		"| interface | where the code is |\n|---|---|\n" +
		"| HTTP | the header `Genbus-Error-Code`, and `error.code` in the body |\n" +
		"| gRPC | `google.rpc.ErrorInfo.reason`, domain `genbus` |\n" +
		"| NATS replies | the header `genbus-error-code` |\n" +
		"| events | `task.error.code` |\n" +
		"| dead letters | `error.code` |\n\n" +
		"Over HTTP, genbus passes on a chat upstream's refusal of the request with the upstream's status, type and code in the body.\n" +
		"The header still has the genbus code.\n\n" +
		"*Retry* says whether the same request may succeed later.\n" +
		"HTTP errors say the same in the header `X-Should-Retry`, which the OpenAI SDKs obey.\n" +
		"There are two exceptions.\n" +
		"A request of unknown acceptance may be sent again if it has an `Idempotency-Key`.\n" +
		"After `upstream_timeout`, the header is `false`, because the upstream may charge for both calls.\n" +
		"The error of a job that has ended is final, whatever its code.\n" +
		"Its `retryable` says whether a new job may succeed.\n\n" +
		"| code | HTTP | gRPC | retry | what happened | what the caller can do |\n|---|---|---|---|---|---|\n")
	for _, m := range Table() {
		retry := "final"
		if m.Retry {
			retry = "retry"
		}
		fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s | %s |\n", m.Code, m.HTTP, codes.Code(m.GRPC), retry, means[m.Code], m.Do)
	}
	b.WriteString("\n## For operators\n\nCodes that are not listed here need nothing else from an operator.\n\n" +
		"| code | what the operator can do |\n|---|---|\n")
	for _, m := range Table() {
		if m.Operate != "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", m.Code, m.Operate)
		}
	}
	return b.String()
}

func TestEveryRowIsWhole(t *testing.T) {
	t.Parallel()
	seen := map[Code]bool{}
	for _, m := range Table() {
		if seen[m.Code] {
			t.Errorf("%s has two rows", m.Code)
		}
		seen[m.Code] = true
		if codes.Code(m.GRPC) == codes.OK || m.HTTP < 400 || m.HTTP > 599 || m.Type == "" || m.Means() == "" || m.Do == "" {
			t.Errorf("%s is not whole: %+v", m.Code, m)
		}
	}
}

func TestUnknownCodeIsInternal(t *testing.T) {
	t.Parallel()
	if got := MeaningOf("no_such_code").Code; got != Internal {
		t.Errorf("got %s", got)
	}
}

func TestFrom(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		err  error
		want Code
	}{
		{nil, ""},
		{fmt.Errorf("create: %w", New(QueueFull, "full")), QueueFull},
		{fmt.Errorf("x: %w", context.Canceled), CallerGone},
		{context.DeadlineExceeded, UpstreamTimeout},
		{errors.New("boom"), Internal},
	} {
		if got := CodeOf(row.err); got != row.want {
			t.Errorf("CodeOf(%v) = %s, want %s", row.err, got, row.want)
		}
	}
	if !errors.Is(fmt.Errorf("x: %w", New(QueueFull, "a")), New(QueueFull, "b")) {
		t.Error("errors with one code are not equal for errors.Is")
	}
}

// TestCounted checks that failures after the caller disconnected do not count as server errors.
func TestCounted(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	within, cancel := context.WithTimeoutCause(gone, time.Hour, errors.New("too slow"))
	defer cancel()
	ended, end := context.WithCancelCause(t.Context())
	end(New(ShuttingDown, "going down"))
	for _, row := range []struct {
		ctx  context.Context
		err  error
		want Code
	}{
		{gone, nil, ""},
		{gone, New(AcceptanceUnknown, "no answer"), CallerGone},
		{within, New(BrokerUnavailable, "no answer"), CallerGone},
		{gone, errors.New("boom"), CallerGone},
		{gone, New(InvalidRequest, "no"), InvalidRequest},
		{gone, New(QueueFull, "full"), QueueFull},
		{t.Context(), New(AcceptanceUnknown, "no answer"), AcceptanceUnknown},
		{ended, New(ShuttingDown, "going down"), ShuttingDown},
	} {
		if got := Counted(row.ctx, row.err); got != row.want {
			t.Errorf("%v after %v counts as %s, not %s", row.err, context.Cause(row.ctx), got, row.want)
		}
	}
}

// TestInvalidSaysWhat checks the messages for a wrong field and a wrong body.
func TestInvalidSaysWhat(t *testing.T) {
	t.Parallel()
	for want, violations := range map[string][]Violation{
		"the request is invalid":                    nil,
		"the body is empty; it must be JSON":        {{Description: "is empty; it must be JSON"}},
		"n: must be positive (and 1 more mistake)":  {{Field: "n", Description: "must be positive"}, {Description: "is odd"}},
		"n: must be positive (and 2 more mistakes)": {{Field: "n", Description: "must be positive"}, {Description: "is odd"}, {Description: "is old"}},
	} {
		if got := Invalid(violations).Message; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestParamIsAField checks that param is the field, or null if the whole body is wrong.
func TestParamIsAField(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]Violation{`"param":null`: {Description: "is empty"}, `"param":"n"`: {Field: "n", Description: "is odd"}} {
		if got := string(Invalid([]Violation{v}).Envelope()); !strings.Contains(got, want) {
			t.Errorf("%s in %s", want, got)
		}
	}
}

func TestWriteHTTP(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	New(AcceptanceUnknown, "no answer").WithRetryAfter(1500 * time.Millisecond).WriteHTTP(w)
	if w.Header().Get("Genbus-Error-Code") != "acceptance_unknown" || w.Code != 500 || w.Header().Get("Retry-After") != "2" || w.Header().Get("X-Should-Retry") != "false" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	want := `{"error":{"message":"no answer","type":"server_error","param":null,"code":"acceptance_unknown"}}`
	if got := w.Body.String(); got != want {
		t.Errorf("got %s", got)
	}
}

func TestTaskErrorRoundTrip(t *testing.T) {
	t.Parallel()
	e := &Error{Code: UpstreamFailed, Message: strings.Repeat("é", 3000), UpstreamCode: "50413", UpstreamHTTPStatus: 400, UpstreamRequestID: "r1", RetryAfter: time.Second}
	te := e.TaskError()
	if len(te.GetMessage()) > MaxMessage || !utf8.ValidString(te.GetMessage()) {
		t.Errorf("message of %d bytes, valid %v", len(te.GetMessage()), utf8.ValidString(te.GetMessage()))
	}
	back := FromTaskError(te)
	if back.Code != e.Code || back.UpstreamCode != "50413" || back.UpstreamHTTPStatus != 400 || back.RetryAfter != time.Second {
		t.Errorf("got %+v", back)
	}
	if FromTaskError(nil) != nil {
		t.Error("nil became an error")
	}
}

func TestPassedOnRefusalKeepsTheUpstreamsCode(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	e := &Error{Code: UpstreamRefused, Message: "too long", HTTPStatus: 400, Type: "invalid_request_error", UpstreamCode: "context_length_exceeded"}
	e.WriteHTTP(w)
	want := `{"error":{"message":"too long","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}`
	if w.Code != 400 || w.Body.String() != want || w.Header().Get("Genbus-Error-Code") != "upstream_refused" {
		t.Errorf("%d %s %v", w.Code, w.Body, w.Header())
	}
}

func TestEnvelopeIsNotForHTML(t *testing.T) {
	t.Parallel()
	e := &Error{Code: InvalidRequest, Message: "a < b & c > d", Violations: []Violation{{Field: "\xff<"}}}
	const want = `{"error":{"message":"a < b & c > d","type":"invalid_request_error","param":"` + "\uFFFD" + `<","code":"invalid_request"}}`
	if got := string(e.Envelope()); got != want {
		t.Errorf("%s", got)
	}
}

// TestBecause checks that a hidden cause reaches the log and errors.Is but not the caller.
func TestBecause(t *testing.T) {
	t.Parallel()
	cause := errors.New("stream GENBUS_WAIT: no answer")
	e := New(BrokerUnavailable, "nothing was accepted").Because(cause)
	if e.Message != "nothing was accepted" || e.TaskError().GetMessage() != e.Message || !errors.Is(e, cause) || !e.Hides() {
		t.Errorf("%+v", e)
	}
	if got, want := e.LogValue().String(), "broker_unavailable: nothing was accepted (stream GENBUS_WAIT: no answer)"; got != want {
		t.Errorf("the log has %q, want %q", got, want)
	}
	if got := From(errors.Join(errors.New("one"), errors.New("two"))).Message; got != "one; two" {
		t.Errorf("an internal error is told as %q", got)
	}
}

// TestShouldRetry checks that SDKs retry only what may succeed, and that a refusal by the upstream
// with a status of genbus is not an invalid_request_error.
func TestShouldRetry(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		err   *Error
		retry string
		typ   string
	}{
		{"a full queue", New(QueueFull, "full"), "true", "rate_limit_error"},
		{"the upstream's 401", New(UpstreamKeyRefused, "401"), "false", "server_error"},
		{"the upstream's policy", New(UpstreamRefused, "403"), "false", "server_error"},
		{"the upstream's unknown model", &Error{Code: UpstreamRefused, HTTPStatus: 404}, "false", "invalid_request_error"},
		{"the upstream's quota", New(UpstreamQuota, "429"), "false", "server_error"},
		{"an unknown acceptance", New(AcceptanceUnknown, "no answer"), "false", "server_error"},
		{"no broker", New(BrokerUnavailable, "away"), "true", "server_error"},
	} {
		w := httptest.NewRecorder()
		row.err.WriteHTTP(w)
		var body struct {
			Error struct {
				Type string `json:"type"`
			} `json:"error"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("X-Should-Retry"); got != row.retry || body.Error.Type != row.typ {
			t.Errorf("%s: X-Should-Retry %q, type %q; want %q and %q", row.name, got, body.Error.Type, row.retry, row.typ)
		}
	}
}

// TestATimeoutIsNotToBeRepeatedBySDKs checks that SDKs, which repeat every 504, are told not to if
// the upstream may charge for both calls.
func TestATimeoutIsNotToBeRepeatedBySDKs(t *testing.T) {
	t.Parallel()
	for timedOut, want := range map[bool]string{false: "true", true: "false"} {
		h := http.Header{}
		(&Error{Code: UpstreamTimeout, TimedOut: timedOut}).SetHeader(h)
		if got := h.Get(HeaderShouldRetry); got != want {
			t.Errorf("%t: %s", timedOut, got)
		}
	}
}
