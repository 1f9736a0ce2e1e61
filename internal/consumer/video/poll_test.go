package video

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// TestTheLogOfAFailedPoll proves that the upstream's words are not logged.
func TestTheLogOfAFailedPoll(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"[]":                                   nil,
		"[error refused]":                      &upstream.Error{Message: "refused"},
		"[error broken]":                       errors.New("broken"),
		"[http_status 500 upstream_code busy]": &upstream.Error{HTTPStatus: 500, Code: "busy", Message: "the prompt", Err: errors.New("the prompt")},
	} {
		if got := fmt.Sprint(logged(err)); got != want || strings.Contains(got, "prompt") {
			t.Errorf("%v is logged as %s, not %s", err, got, want)
		}
	}
}
