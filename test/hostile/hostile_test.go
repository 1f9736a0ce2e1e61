package hostile_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"reflect"
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/test/hostile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var target = hostile.Target{
	Authorization: "Bearer k", AccessKey: "ak", SecretKey: "0123456789abcdef", Videos: []string{"video_aaaaaaaaaaaaaaaaaaaaaaaaaa"},
	Chats: []string{"chat_aaaaaaaaaaaaaaaaaaaaaaaaaa"}, Marker: "mark",
}

// generators are all generators, by name.
var generators = map[string]func(s *hostile.Source) any{
	"request":    func(s *hostile.Source) any { return hostile.Request(s, target) },
	"json":       func(s *hostile.Source) any { return hostile.JSON(s, hostile.One(s, hostile.Kinds), target) },
	"form":       func(s *hostile.Source) any { in, as := hostile.Form(s, target); return []any{in, as} },
	"header":     func(s *hostile.Source) any { name, value := hostile.Header(s); return name + value },
	"query":      func(s *hostile.Source) any { return hostile.Query(s) },
	"connection": func(s *hostile.Source) any { return hostile.Connection(s, target) },
	"message":    func(s *hostile.Source) any { return hostile.Message(s, target, hostile.One(s, hostile.Methods)) },
	"note":       func(s *hostile.Source) any { return hostile.Notes(s, target, "genbus.call") },
	"lines":      func(s *hostile.Source) any { return hostile.NATSLines(s, target, "genbus.call") },
	"answer": func(s *hostile.Source) any {
		return hostile.Respond(s, hostile.CallPoll, hostile.One(s, hostile.Kinds[:4]), "task", hostile.Inward("1"))
	},
}

// TestInputsFollowFromTheSeed proves that the same seed, name and number give the same input.
func TestInputsFollowFromTheSeed(t *testing.T) {
	t.Parallel()
	for name, generate := range generators {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[[32]byte]bool{}
			const n = 80
			for i := range n {
				first, again := generate(hostile.At(7, name, i)), generate(hostile.At(7, name, i))
				if !reflect.DeepEqual(first, again) {
					t.Fatalf("input %d is another one the second time", i)
				}
				seen[sha256.Sum256(fmt.Appendf(nil, "%s", first))] = true // %s, because printing bytes as numbers takes seconds under the race detector
			}
			if len(seen) < n/6 {
				t.Errorf("only %d of %d inputs differ", len(seen), n)
			}
		})
	}
}

// TestWrongMembersAreAllDifferent proves that WrongMember has a distinct, non-empty body for each
// number.
func TestWrongMembersAreAllDifferent(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range hostile.WrongMembers() {
		_, in := hostile.WrongMember(target, i)
		if len(in.Bytes) == 0 || seen[in.Name] {
			t.Fatalf("%d: %q, %d bytes", i, in.Name, len(in.Bytes))
		}
		seen[in.Name] = true
	}
	if len(seen) < 1000 {
		t.Errorf("only %d", len(seen))
	}
}

// TestGoodBodiesAreGood proves that the bodies that generators break are whole.
func TestGoodBodiesAreGood(t *testing.T) {
	t.Parallel()
	for _, e := range hostile.Creates {
		if body := target.Body(e); !bytes.Contains([]byte(body), []byte("mark")) || body[0] != '{' || body[len(body)-1] != '}' {
			t.Errorf("%s: %s", e.Path, body)
		}
	}
	request := hostile.Post(hostile.At(1, "x", 0), target, "/v1/videos", "application/json", []byte("{}"))
	if !bytes.HasPrefix(request, []byte("POST /v1/videos HTTP/1.1\r\n")) || !bytes.HasSuffix(request, []byte("\r\n\r\n{}")) {
		t.Errorf("%q", request)
	}
}
