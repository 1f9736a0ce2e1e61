package video

import (
	"errors"
	"fmt"
	"testing"

	"github.com/genbus/genbus/internal/upstream"
)

// TestStatusOf proves that a successful call is not counted as one without an answer.
func TestStatusOf(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]int{
		nil: 200,
		fmt.Errorf("poll: %w", &upstream.Error{HTTPStatus: 503}): 503,
		&upstream.Error{}:                0,
		errors.New("connection refused"): 0,
	} {
		if got := statusOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}
