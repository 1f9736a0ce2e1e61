package protocol_test

import (
	"testing"

	"github.com/genbus/genbus/internal/protocol"
)

func TestHasVersion(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]bool{
		"https://h/v1": true, "https://h/api/v3": true, "https://h/v1beta/openai": true, "https://h/v2alpha1/x": true, "https://h/v1.0": true, "https://h//v4/": true,
		"": false, "https://h": false, "https://v1": false, "https://v1.example.com/api": false, "https://h/v": false, "https://h/xv1": false, "https://h/v1x": false, "https://h/v2ray": false,
		"https://h/V1": false, "https://h/2023-06-01": false, "https://h/videos": false,
	} {
		if got := protocol.HasVersion(base); got != want {
			t.Errorf("%s: %t", base, got)
		}
	}
}
