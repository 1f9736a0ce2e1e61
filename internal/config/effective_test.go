package config

import (
	"bytes"
	"testing"
)

// TestEffectiveLoadsAgain checks that loading the output restores the configuration, and that it
// contains no secret.
func TestEffectiveLoadsAgain(t *testing.T) {
	t.Parallel()
	environ := []string{"GENBUS_UPSTREAM_URL=http://h", "GENBUS_UPSTREAM_KEY=hunter2", "GENBUS_API_KEY=hunter3", "GENBUS_LOG_LEVEL=debug", "PW=hunter4"}
	want := mustLoad(t, "nats: {user: 'on', password_env: PW}\nchat: {inline_events: 'off'}\nevents: {encoding: json}", environ...)
	text, err := want.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte("hunter")) {
		t.Errorf("a secret is shown:\n%s", text)
	}
	if !bytes.Contains(text, []byte(`- '*'`)) || !bytes.Contains(text, []byte("max_age: 168h\n")) || !bytes.Contains(text, []byte("max_bytes: 4GiB\n")) {
		t.Errorf("not written for people:\n%s", text)
	}
	if d := diff(want, mustLoad(t, string(text), environ...)); d != "" {
		t.Errorf("%s\n%s", d, text)
	}
}

func TestEffectiveWithHeadersAndMaps(t *testing.T) {
	t.Parallel()
	want := mustLoad(t, `
upstreams: {u: {base_url: http://h, headers: {X-B: '1', X-A: 'yes: no'}}}
routes: [{name: r, kind: video, upstream: u, models: ['a*'], model_map: {b: c, a: 'null'}}]`)
	text, err := want.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(want, mustLoad(t, string(text))); d != "" {
		t.Errorf("%s\n%s", d, text)
	}
}
