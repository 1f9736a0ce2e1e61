package upstream

import (
	"strings"
	"testing"
)

func TestIsResultURL(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"https://cdn.example.com/v.mp4?sign=a%2Fb#t=1", "http://h", "HTTPS://cdn.example.com/v", "http://127.0.0.1:3000/v1/videos/t/content",
		"http://[::1]/v", "https://h/" + strings.Repeat("x", 16<<10-len("https://h/")),
		"data:video/mp4;base64,AAAA", "DATA:,", "data:video/mp4;base64," + strings.Repeat("A", 1<<20),
	} {
		if !IsResultURL(s) {
			t.Errorf("%.60q is none", s)
		}
	}
	for _, s := range []string{
		"", "Post Text Risk Not Pass", "/v1/videos/t/content", "cdn.example.com/v.mp4", "//cdn.example.com/v.mp4", "http://", "https:///v.mp4",
		"http:h", "ftp://h/v.mp4", "file:///etc/passwd", "httpx://host/v", "javascript:alert(1)", "https://h/%zz", " https://h/v",
		"https://h/" + strings.Repeat("x", 16<<10), "data:", "data:video/mp4", "data:" + strings.Repeat("x", 300) + ",",
	} {
		if IsResultURL(s) {
			t.Errorf("%.60q is one", s)
		}
	}
}

// TestLoopbackResultIsTheGateways checks that a loopback address from a remote gateway means that
// gateway.
func TestLoopbackResultIsTheGateways(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ base, result, want string }{
		{"https://gateway.example.com", "http://localhost:3000/v1/videos/t/content", "https://gateway.example.com/v1/videos/t/content"},
		{"https://gateway.example.com/api/v1", "http://127.0.0.1:3000/v1/videos/t%2F1/content?variant=video", "https://gateway.example.com/api/v1/videos/t%2F1/content?variant=video"},
		{"https://gateway.example.com/v1", "http://localhost:3000/files/t.mp4", "https://gateway.example.com/files/t.mp4"},
		{"http://10.0.0.7:3000", "http://[::1]/v1/videos/t/content", "http://10.0.0.7:3000/v1/videos/t/content"},
		{"http://127.0.0.1:4000", "http://localhost:3000/v1/videos/t/content", "http://localhost:3000/v1/videos/t/content"},
		{"http://localhost:4000", "http://127.0.0.1:3000/v.mp4", "http://127.0.0.1:3000/v.mp4"},
		{"https://gateway.example.com", "https://cdn.example.com/v.mp4", "https://cdn.example.com/v.mp4"},
		{"https://gateway.example.com", "data:video/mp4;base64,AAAA", "data:video/mp4;base64,AAAA"},
	} {
		if got := (&Endpoint{BaseURL: row.base}).reachable(row.result); got != row.want {
			t.Errorf("%s of %s: %s, want %s", row.result, row.base, got, row.want)
		}
	}
}
