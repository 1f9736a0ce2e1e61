package jobindex

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/genbus/genbus/internal/jobtable"
)

// TestTooManySearchesAreBusy checks that a search without a turn fails with ErrBusy after
// turnPatience.
func TestTooManySearchesAreBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, r := &keeper{turns: make(chan struct{}, 1)}, &reading{table: jobtable.New(1)}
		k.turns <- struct{}{}
		begin := time.Now()
		if _, err := k.search(t.Context(), r, jobtable.Search{Size: 1}); !errors.Is(err, ErrBusy) || time.Since(begin) != turnPatience {
			t.Errorf("%v after %s", err, time.Since(begin))
		}
		<-k.turns
		if _, err := k.search(t.Context(), r, jobtable.Search{Size: 1}); err != nil {
			t.Error(err)
		}
	})
}
