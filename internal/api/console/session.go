package console

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/upstream/sse"
)

const (
	cookieName = "genbus_console"
	// sessionTime is the lifetime of a login.
	sessionTime = 12 * time.Hour
	// maxForm bounds the body of a form, in bytes.
	maxForm = 1 << 20
)

// session is the encrypted content of the login cookie. It contains the operator's key, so a
// session ends when the key is removed, and it works on every replica that has the key.
type session struct {
	Key     string    `json:"key"`
	Expires time.Time `json:"expires"`
}

func seal(key [32]byte, s session) (string, error) {
	plain, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	gcm, err := newGCM(key)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, gcm.NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(gcm.Seal(nonce, nonce, plain, []byte(cookieName))), nil
}

// unseal decrypts a session. It returns false if the text was not encrypted with this key or the
// session has expired.
func unseal(key [32]byte, text string, now time.Time) (session, bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return session{}, false
	}
	gcm, err := newGCM(key)
	if err != nil || len(raw) < gcm.NonceSize() {
		return session{}, false
	}
	plain, err := gcm.Open(nil, raw[:gcm.NonceSize()], raw[gcm.NonceSize():], []byte(cookieName))
	if err != nil {
		return session{}, false
	}
	var s session
	if json.Unmarshal(plain, &s) != nil || !now.Before(s.Expires) {
		return session{}, false
	}
	return s, true
}

func newGCM(key [32]byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// viewer returns the operator who sent a request. For any other caller, it returns
// operator_required or invalid_api_key. While JetStream is unavailable, it returns
// broker_unavailable.
func (c *Console) viewer(r *http.Request) (viewer, error) {
	key := ""
	v := viewer{Local: c.isLocal(r)}
	if v.Local {
		key = c.LocalKey
	} else if cookie, err := r.Cookie(cookieName); err == nil {
		id, sealed, _ := strings.Cut(cookie.Value, ".")
		if seal, ok := c.Config.Now().SessionSeal(id); ok {
			s, _ := unseal(seal, sealed, time.Now())
			key = s.Key
		}
	}
	return c.viewerOf(v, key)
}

func (c *Console) viewerOf(v viewer, key string) (_ viewer, err error) {
	v.authorization = "Bearer " + key
	if v.Name, err = c.Callers.Operator(v.authorization, false); needsLogin(err) {
		return v, err
	}
	_, refused := c.Callers.Operator(v.authorization, true)
	v.Acts = !needsLogin(refused)
	return v, err
}

// needsLogin reports whether an error means that the caller must log in.
func needsLogin(err error) bool {
	code := errcode.CodeOf(err)
	return code == errcode.OperatorRequired || code == errcode.InvalidAPIKey
}

type loginPage struct {
	Next string
	// Off is set if logging in is impossible because no operator key is configured.
	Off bool
	Err string
}

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request) {
	c.loginForm(w, r, http.StatusOK, loginPage{Next: localPath(r.URL.Query().Get("next"))})
}

func (c *Console) loginForm(w http.ResponseWriter, r *http.Request, status int, p loginPage) {
	p.Off = len(c.Config.Now().OperatorKeys) == 0
	if p.Off {
		status = http.StatusForbidden
	}
	c.write(w, r, status, "login", page{Title: "Log in", Data: p})
}

// login accepts an operator key and sets the session cookie.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	next := localPath(r.PostFormValue("next"))
	key := strings.TrimSpace(r.PostFormValue("key"))
	if _, err := c.viewerOf(viewer{}, key); err != nil {
		p := loginPage{Next: next, Err: "This is not a valid operator key."}
		status := http.StatusUnauthorized
		if !needsLogin(err) {
			p.Err, status = errcode.From(err).Message, http.StatusServiceUnavailable
		}
		c.loginForm(w, r, status, p)
		return
	}
	expires := time.Now().Add(sessionTime)
	id := config.SessionID(key)
	sealing, _ := c.Config.Now().SessionSeal(id) // the key was just accepted
	sealed, err := seal(sealing, session{Key: key, Expires: expires})
	if err != nil {
		c.refuse(w, r, http.StatusInternalServerError, "Could not create a session.")
		return
	}
	cookie := c.cookie(r, id+"."+sealed)
	cookie.Expires = expires
	http.SetCookie(w, cookie)
	http.Redirect(w, r, cmp.Or(next, Path), http.StatusSeeOther)
}

// cookie returns the session cookie. SameSite=Strict keeps it out of requests from other sites.
func (c *Console) cookie(r *http.Request, value string) *http.Cookie {
	return &http.Cookie{
		Name: cookieName, Value: value, Path: Path, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || strings.HasPrefix(c.Config.Now().HTTP.PublicURL, "https:"),
	}
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	cookie := c.cookie(r, "")
	cookie.MaxAge = -1
	http.SetCookie(w, cookie)
	http.Redirect(w, r, Path+"/login", http.StatusSeeOther)
}

// askForLogin answers a caller who is not logged in. If the caller followed a link on another site,
// for example in an alert, the browser did not send the SameSite=Strict cookie. askForLogin then
// answers with a page that repeats the request from this site, with the cookie.
func (c *Console) askForLogin(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Site") == "cross-site" {
		c.write(w, r, http.StatusOK, "hop", page{Title: "genbus", Data: r.URL.RequestURI()})
		return
	}
	if wantsEvents(r) { // after an error status, the browser would not reconnect
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(sse.Append(nil, sse.Event{Type: "login"}))
		return
	}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		http.Redirect(w, r, Path+"/login?next="+url.QueryEscape(localPath(r.URL.RequestURI())), http.StatusSeeOther)
		return
	}
	c.loginForm(w, r, http.StatusUnauthorized, loginPage{Err: "Log in first; nothing was done."})
}

// localPath returns path if it belongs to the console, and an empty string otherwise. This prevents
// redirects to other sites.
func localPath(path string) string {
	if path == Path || strings.HasPrefix(path, Path+"/") || strings.HasPrefix(path, Path+"?") {
		return path
	}
	return ""
}

// isLocal reports whether a request needs no login. This is the case if no key of an operator or
// tenant is configured and the request comes from this machine. The listener is on loopback. The
// Host header identifies a page of another site whose name resolves to loopback. Most proxies can
// be recognized by the headers that they add. A proxy that adds no such header cannot be
// recognized, so a service with tenant keys always needs a login.
func (c *Console) isLocal(r *http.Request) bool {
	if cfg := c.Config.Now(); c.LocalKey == "" || len(cfg.OperatorKeys) > 0 || len(cfg.APIKeys) > 0 {
		return false
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if r.Header[name] != nil { // even if the first line is empty, because a proxy may have added another
			return false
		}
	}
	return config.IsLoopback(r.Host)
}

// form parses a form and returns the viewer who sent it. If ok is false, form has already answered
// the request.
func (c *Console) form(w http.ResponseWriter, r *http.Request) (who viewer, ok bool) {
	who, err := c.viewer(r)
	if needsLogin(err) {
		c.askForLogin(w, r)
		return who, false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.refuse(w, r, http.StatusBadRequest, "The form could not be read, so nothing was done. It may be too large.")
		return who, false
	}
	return who, true
}
