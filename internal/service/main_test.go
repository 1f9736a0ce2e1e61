package service_test

import (
	"testing"

	"github.com/genbus/genbus/internal/sandbox"
)

func newSandbox(t testing.TB) *sandbox.Server {
	t.Helper()
	s, err := sandbox.Start("127.0.0.1:0", sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
