package pool_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/pool"
	"github.com/genbus/genbus/internal/upstream"
)

// quotes refuses a request in words that quote it.
func quotes(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "id of the secret")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":{"message":"the secret","type":"the secret","code":"the secret","param":"the secret"}}`)
	}
}

// TestAPauseIsTheUpstreamsAndItsWordsAreNot proves that callers during a pause learn its source and
// end, but nothing that the upstream returned to another caller.
func TestAPauseIsTheUpstreamsAndItsWordsAreNot(t *testing.T) {
	t.Parallel()
	for way, run := range runs {
		for status, who := range map[int]string{429: "b/1", 503: "b"} { // the key, the upstream
			t.Run(fmt.Sprint(way, status), func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, byKey{"a/1": after("40", quotes(status)), "b/1": after("30", quotes(status))}, nil, nil)
				_, err := run(t.Context(), f, request(false))
				if said, ok := errors.AsType[*upstream.Error](err); !ok || !said.Reported || said.Message != "the secret" || said.HTTPStatus != status {
					t.Errorf("got %#v, want what the upstream said to it", err)
				}
				_, err = run(t.Context(), f, request(false))
				e, ok := errors.AsType[*upstream.Error](err)
				if !ok || e.Final || e.Written || e.Reported || e.HTTPStatus != status || e.RetryAfter <= 20*time.Second || e.RetryAfter > 30*time.Second {
					t.Fatalf("got %#v, want a pause", err)
				}
				if _, ok := errors.AsType[*pool.BusyError](err); !ok || !strings.HasPrefix(e.Message, "upstream "+who+" asked for a pause until 20") {
					t.Errorf("got %v", err)
				}
				if strings.Contains(fmt.Sprintf("%+v %v", *e, e.Err), "secret") {
					t.Errorf("somebody else's words: %+v", *e)
				}
				expect(t, f.called(), "a/1", "b/1")
			})
		}
	}
}
