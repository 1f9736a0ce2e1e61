package chat

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream"
	"github.com/genbus/genbus/internal/upstream/chat/chattest"
)

// TestCorpus checks every answer of the corpus as a whole reply, as a stream at once and as a
// stream in pieces.
func TestCorpus(t *testing.T) {
	t.Parallel()
	for _, a := range chattest.Load(t, "testdata") {
		t.Run(a.Name+"/complete", func(t *testing.T) {
			t.Parallel()
			c := serve(t, Options{}, send(a, len(a.Body)))
			skipped := 0
			reply, err := c.Complete(t.Context(), Request{JobID: "chat_1", Body: []byte(testBody), OnSkip: func() { skipped++ }})
			if skipped != a.Want.Skipped {
				t.Errorf("%d events skipped, want %d", skipped, a.Want.Skipped)
			}
			if wantError(t, a, err) {
				return
			}
			checkReply(t, a, reply)
		})
		for how, size := range map[string]int{"at once": len(a.Body), "in pieces": max(7, len(a.Body)/100)} {
			t.Run(a.Name+"/stream "+how, func(t *testing.T) {
				t.Parallel()
				c := serve(t, Options{}, send(a, size))
				skipped := 0
				s, err := c.Stream(t.Context(), Request{JobID: "chat_1", Body: []byte(testBody), OnSkip: func() { skipped++ }})
				if err == nil {
					defer s.Close()
					checkStream(t, a, s)
				} else {
					checkRefused(t, a, err)
				}
				if skipped != a.Want.Skipped {
					t.Errorf("%d events skipped, want %d", skipped, a.Want.Skipped)
				}
			})
		}
	}
}

func send(a chattest.Answer, size int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = nil // stops net/http from guessing
		if a.ContentType != "" {
			w.Header().Set("Content-Type", a.ContentType)
		}
		for name, value := range a.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(a.Status)
		for rest := a.Body; len(rest) > 0; {
			n := min(size, len(rest))
			_, _ = w.Write(rest[:n])
			_ = http.NewResponseController(w).Flush()
			rest = rest[n:]
		}
		if a.Reset {
			panic(http.ErrAbortHandler)
		}
	}
}

func checkReply(t *testing.T, a chattest.Answer, got *Reply) {
	t.Helper()
	if got.Assembled != a.Streamed || got.Status != a.Status {
		t.Errorf("assembled %v, status %d", got.Assembled, got.Status)
	}
	if !a.Streamed && string(got.Raw) != string(a.Body) {
		t.Errorf("the reply is not the answer byte for byte: %s", got.Raw)
	}
	if diff := cmp.Diff(canonical(t, a.Want.Reply), canonical(t, got.Raw)); diff != "" {
		t.Errorf("reply (-want +got)\n%.2000s", diff)
	}
}

func checkStream(t *testing.T, a chattest.Answer, s *Stream) {
	t.Helper()
	if s.isWhole == a.Streamed || s.Status() != a.Status {
		t.Errorf("converted %v, status %d", s.isWhole, s.Status())
	}
	blocks, err := collect(s)
	if a.Streamed {
		if diff := cmp.Diff([]string(a.Want.Blocks), blocks); diff != "" {
			t.Errorf("blocks (-want +got)\n%.2000s", diff)
		}
	}
	if err == io.EOF {
		err = nil
	}
	if wantError(t, a, err) || a.Streamed {
		return
	}
	if diff := cmp.Diff(canonical(t, a.Want.Restreamed), canonical(t, []byte(assemble(t, blocks...)))); diff != "" {
		t.Errorf("what the blocks make (-want +got)\n%.2000s", diff)
	}
}

func checkRefused(t *testing.T, a chattest.Answer, err error) {
	t.Helper()
	if wantError(t, a, err) && len(a.Want.Blocks) > 0 {
		t.Errorf("refused, although %d blocks came", len(a.Want.Blocks))
	}
}

// wantError compares err with the expected error, and reports whether one is expected.
func wantError(t *testing.T, a chattest.Answer, err error) bool {
	t.Helper()
	if a.Want.Error == nil {
		if err != nil {
			t.Fatalf("error %v", err)
		}
		return false
	}
	e, ok := errors.AsType[*upstream.Error](err)
	if !ok {
		t.Fatalf("error %v, want %+v", err, a.Want.Error)
	}
	if e.Op != op || e.HTTPStatus != a.Status || !e.Written {
		t.Errorf("error %#v does not fit the answer", e)
	}
	got := chattest.Error{
		Code: e.Code, Type: e.Type, Param: e.Param, Message: e.Message, RequestID: e.RequestID,
		RetryAfterMS: e.RetryAfter.Milliseconds(), Reported: e.Reported, Final: e.Final, Scope: e.Scope.String(),
	}
	if diff := cmp.Diff(*a.Want.Error, got); diff != "" {
		t.Errorf("error (-want +got)\n%s", diff)
	}
	return true
}
