package content_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/content"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream"
)

// redirect sends a redirect with Location exactly as given.
func redirect(status int, to string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", to)
		w.Header().Set("Set-Cookie", "session=1")
		w.WriteHeader(status)
	}
}

func TestRedirectToAStrangerLosesTheKey(t *testing.T) {
	t.Parallel()
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.own.mux.Handle("/base/v1/content", redirect(status, w.foreign.URL+"/file"+signed))
			w.foreign.mux.HandleFunc("GET /file", serveVideo)
			f, data, err := w.open(content.Place{Endpoint: w.endpoint, Path: "/v1/content", PrivateOK: true}, content.Request{Range: "bytes=5-9"})
			if err != nil || string(data) != string(video[5:10]) || f.Status != http.StatusPartialContent {
				t.Fatalf("read %d bytes, %v", len(data), err)
			}
			r := w.foreign.requests()[0]
			wantNoSecrets(t, r)
			if r.Header.Get("Range") != "bytes=5-9" {
				t.Errorf("the range was lost: %v", r.Header)
			}
		})
	}
}

func TestRedirectOnTheOwnOriginKeepsTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.own.mux.Handle("/base/v1/content", redirect(307, "/files/1?x=y"))
	w.own.mux.HandleFunc("GET /files/1", serveVideo)
	w.wantVideo(content.Place{Endpoint: w.endpoint, Path: "/v1/content"})
	r := w.own.requests()[1]
	if r.Header.Get("Authorization") != "Bearer "+testKey || r.Header.Get("Referer") != "" || r.Header.Get("Cookie") != "" {
		t.Errorf("called with %v", r.Header)
	}
}

// TestStrangerCannotUseTheKey checks that a foreign host cannot make the reader use the key by
// sending it back to the upstream, by redirect or in JSON.
func TestStrangerCannotUseTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.foreign.mux.Handle("/redirect", redirect(302, w.own.URL+"/account"))
	w.foreign.mux.Handle("/json", answer(200, "application/json", `{"url":"`+w.own.URL+`/account"}`))
	w.own.mux.HandleFunc("/account", serveVideo)
	w.wantVideo(w.at(w.foreign.URL + "/redirect"))
	w.wantVideo(w.at(w.foreign.URL + "/json"))
	for _, r := range w.own.requests() {
		wantNoSecrets(t, r)
	}
}

// TestDowngradeLosesTheKey checks that the same host without TLS gets no key.
func TestDowngradeLosesTheKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.foreign.mux.HandleFunc("GET /file", serveVideo)
	secure := httptest.NewUnstartedServer(redirect(302, w.foreign.URL+"/file"))
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the server logs the refused certificate
	secure.StartTLS()
	t.Cleanup(secure.Close)
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	trust := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	w.endpoint.BaseURL = secure.URL
	transport := upstream.NewTransport(upstream.TransportOptions{TLS: trust})
	t.Cleanup(transport.CloseIdleConnections)
	w.endpoint.Transport = transport
	w.wantVideo(content.Place{Endpoint: w.endpoint, Path: "/v1/content", PrivateOK: true})
	wantNoSecrets(t, w.foreign.requests()[0])

	// As a foreign host, it is read with the roots of the options.
	w.use(content.Options{TLS: trust})
	w.endpoint.BaseURL = w.own.URL
	w.wantVideo(w.at(secure.URL + "/"))
	w.use(content.Options{})
	w.wantError(w.at(secure.URL+"/"+signed), errcode.ContentUnavailable, "certificate")
}

// TestUserInfoIsSent proves that the user information of a URL is sent, with and without a password,
// except in place of the upstream's key.
func TestUserInfoIsSent(t *testing.T) {
	t.Parallel()
	for _, user := range []*url.Userinfo{url.User("token"), url.UserPassword("reader", "secret")} {
		w := newWorld(t)
		serve := func(rw http.ResponseWriter, r *http.Request) {
			name, password, _ := r.BasicAuth()
			if want, _ := user.Password(); name != user.Username() || password != want {
				t.Errorf("%s was sent as %q", user, r.Header.Get("Authorization"))
			}
			serveVideo(rw, r)
		}
		w.own.mux.HandleFunc("/file", serve)
		w.foreign.mux.HandleFunc("/file", serve)
		as := func(base string) string { return strings.Replace(base, "//", "//"+user.String()+"@", 1) }
		w.own.mux.Handle("/base/v1/content", redirect(302, as(w.own.URL)+"/file"))
		at := content.Place{Endpoint: w.endpoint, Path: "/v1/content", PrivateOK: true}
		w.wantVideo(w.at(as(w.foreign.URL) + "/file"))
		w.endpoint.Key = ""
		w.wantVideo(at)
		w.endpoint.Key = testKey
		w.own.mux.HandleFunc("/keyed", func(rw http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer "+testKey {
				t.Errorf("instead of the key, %s sent %q", user, got)
			}
			serveVideo(rw, r)
		})
		w.own.mux.Handle("/base/v1/keyed", redirect(302, as(w.own.URL)+"/keyed"))
		at.Path = "/v1/keyed"
		w.wantVideo(at)
	}
}

func TestRedirectsThatAreBlocked(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"", "file:///etc/passwd", "ftp://127.0.0.1/file", "gopher://x", "data:video/mp4;base64,AAAA", "javascript:1", "http://", "http://%zz/?X-Signature=1", "mailto:a@b"} {
		w := newWorld(t)
		w.own.mux.Handle("/base/v1/content", redirect(302, to))
		w.wantError(content.Place{Endpoint: w.endpoint, Path: "/v1/content", PrivateOK: true}, errcode.ContentBlocked, "upstream sora: redirects")
	}
}

func TestPrivateAddressesAreBlocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.foreign.mux.HandleFunc("/", serveVideo)
	port := w.foreign.URL[strings.LastIndex(w.foreign.URL, ":"):]
	for _, host := range []string{"127.0.0.1", "localhost", "127.1.2.3", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"} {
		to := "http://" + host + port + "/file" + signed
		p := w.at(to)
		p.PrivateOK = false
		w.wantError(p, errcode.ContentBlocked, "host "+host+port+": it has a private address")
		w.own.mux.Handle("/base/v1/redirect/"+host, redirect(302, to))
		w.own.mux.Handle("/base/v1/json/"+host, answer(200, "application/json", `{"url":"`+to+`"}`))
		w.wantError(content.Place{Endpoint: w.endpoint, Path: "/v1/redirect/" + host}, errcode.ContentBlocked)
		w.wantError(content.Place{Endpoint: w.endpoint, Path: "/v1/json/" + host}, errcode.ContentBlocked)
	}
	if n := len(w.foreign.requests()); n != 0 {
		t.Errorf("%d requests reached the private address", n)
	}
}

func TestRedirectsHaveAnEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 7 {
		w.own.mux.Handle(fmt.Sprintf("/hop/%d", i), redirect(302, fmt.Sprintf("/hop/%d", i+1)))
	}
	w.own.mux.Handle("/loop", redirect(302, "/loop"))
	w.own.mux.Handle("/json", answer(200, "application/json", `{"url":"`+w.own.URL+`/json"}`))
	w.own.mux.HandleFunc("/hop/7", serveVideo)
	w.wantVideo(w.at(w.own.URL + "/hop/2"))
	for _, path := range []string{"/hop/1", "/loop", "/json"} {
		w.wantError(w.at(w.own.URL+path), errcode.ContentUnavailable, "redirected more than 5 times")
	}
}
