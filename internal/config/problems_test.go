package config

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// wantLines fails unless err has exactly one line for each text, starting with it.
func wantLines(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error; want %q", want)
		return
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != len(want) {
		t.Errorf("%d problems, want %d:\n%v", len(lines), len(want), err)
		return
	}
	for _, text := range want {
		found := false
		for _, line := range lines {
			found = found || strings.HasPrefix(line, text)
		}
		if !found {
			t.Errorf("no line starts with\n  %s\nin\n  %s", text, strings.ReplaceAll(err.Error(), "\n", "\n  "))
		}
	}
}

const (
	upstreamU = "upstreams: {u: {base_url: http://h}}\n"
	routeU    = upstreamU + "routes:\n- {name: r, kind: video, upstream: u, models: [m], "
)

// upstreamK is an upstream that signs with the given keys. pairK and pairs configure a complete key
// pair.
func upstreamK(keys string) string {
	return "upstreams:\n  k: {base_url: http://h, auth: signed, " + keys + "}\n"
}

const pairK = "access_key_env: AK, secret_key_env: SK"

func sha(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

var pairs = []string{"AK=hunter2", "SK=hunter2"}

// TestProblems covers every check. Line numbers refer to the text. It omits the upper bounds of
// ranges whose lower bound is covered, because both share the check and the message.
func TestProblems(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string
		environ    []string
		want       []string
	}{
		{"syntax", "http: {", nil, []string{"c.yaml: yaml: line 1: did not find expected"}},
		{"star", "a: [*]", nil, []string{`c.yaml: yaml: did not find expected alphabetic or numeric character (a text that starts with * needs quotes: "*")`}},
		{"two documents", "{}\n---\n{}\n", nil, []string{"c.yaml: holds more than one YAML document; want one"}},
		{"not a mapping", "[1]", nil, []string{"is a list; want key: value pairs"}},
		{"unknown key", "http:\n  adr: x", nil, []string{"c.yaml:2: http.adr is not a known key; did you mean addr?"}},
		{"unknown key, no guess", "\nhttp:\n  zebra: x", nil, []string{"c.yaml:3: http.zebra is not a known key; want one of addr, cors, max_body_bytes, max_connections, public_url, read_header_timeout, segments, sse_ping, tls"}},
		{"unknown key with a new line", "\"a\\nb\": x", nil, []string{`c.yaml:1: "a\nb" is not a known key; want one of`}},
		{"key twice", "http: {addr: '127.0.0.1:1'}\nlog: {level: info}\nhttp: {}", nil, []string{"c.yaml:1: http is set twice, in lines 1 and 3; want it once"}},
		{"key that is a list", "[a]: 1", nil, []string{"has a list as a key in line 1; want a name"}},
		{"mapping for a value", "http: {addr: {a: b}}", nil, []string{"c.yaml:1: http.addr is a mapping; want a single value"}},
		{"value for a mapping", "http: 8080", nil, []string{"c.yaml:1: http is a single value; want key: value pairs"}},
		{"value for a list", upstreamU + "routes: all", nil, []string{"c.yaml:2: routes is a single value; want a list, such as [a, b]"}},
		{"value for a list of models", routeU + "}\n- {name: s, kind: chat, upstream: u, models: all}", nil, []string{"c.yaml:4: routes[1].models is a single value; want a list, such as [a, b]"}},
		{"duration", "http: {sse_ping: 15}", nil, []string{`c.yaml:1: http.sse_ping is "15"; want a duration with a unit, such as 500ms, 10s, 15m or 48h`}},
		{"size", "http: {max_body_bytes: 32MB}", nil, []string{`c.yaml:1: http.max_body_bytes is "32MB"; want a size such as 256KiB, 32MiB, 4GiB or a number of bytes`}},
		{"number", "chat: {max_attempts: two}", nil, []string{`c.yaml:1: chat.max_attempts is "two"; want a whole number`}},
		{"bool", "chat: {finish_for_subscribers: yes}", nil, []string{`c.yaml:1: chat.finish_for_subscribers is "yes"; want true or false`}},
		{"inline events", "chat: {inline_events: yes}", nil, []string{`c.yaml:1: chat.inline_events is "yes"; want on or off`}},
		{"float", routeU + "poll: {jitter: .nan}}", nil, []string{`c.yaml:3: routes[0].poll.jitter is ".nan"; want a number such as 0.1`}},
		{"long value", "log: {format: " + strings.Repeat("x", 500) + "}", nil, []string{`c.yaml:1: log.format is "` + strings.Repeat("x", 100) + `"...; want auto, text or json`}},

		{"http.addr", "http: {addr: '8080'}", nil, []string{`c.yaml:1: http.addr is "8080"; want host:port, such as 127.0.0.1:8080`}},
		{"http.addr port", "http: {addr: 'localhost:99999'}", nil, []string{`c.yaml:1: http.addr is "localhost:99999"; want host:port`}},
		{"http.max_body_bytes", "http: {max_body_bytes: 0}", nil, []string{"c.yaml:1: http.max_body_bytes is 0; want 1KiB to 1GiB"}},
		{"http.read_header_timeout", "http: {read_header_timeout: 0s}", nil, []string{"c.yaml:1: http.read_header_timeout is 0s; want 100ms to 10m"}},
		{"http.max_connections", "http: {max_connections: -1}", nil, []string{"c.yaml:1: http.max_connections is -1; want 0 to 10000000"}},
		{"http.cors", "http: {cors: {origins: [app.example.com, https://a.example/, 'https://*.example', 'https://a.example:443', 'https://A.example', null, 'null', '', 'https://u@a.example', https://a.example]}}", nil, []string{
			`c.yaml:1: http.cors.origins[0] is "app.example.com"; want an origin in lower case, without a path and a default port, such as https://app.example.com`,
			"c.yaml:1: http.cors.origins[1]", "c.yaml:1: http.cors.origins[2]", "c.yaml:1: http.cors.origins[3]", "c.yaml:1: http.cors.origins[4]",
			"c.yaml:1: http.cors.origins[5]", "c.yaml:1: http.cors.origins[6]", "c.yaml:1: http.cors.origins[7]", "c.yaml:1: http.cors.origins[8]",
		}},
		{"http.cors without keys", "http: {cors: {origins: ['*']}}", nil, []string{`c.yaml:1: http.cors.origins[0] is "*"; want named origins, or API keys`}},
		{"grpc.max_connections", "grpc: {max_connections: 99999999}", nil, []string{"c.yaml:1: grpc.max_connections is 99999999; want 0 to 10000000"}},
		{"http.tls without a key", "http: {tls: {cert_file: /ok}}", nil, []string{`c.yaml:1: http.tls.cert_file is "/ok"; want cert_file and key_file together, or none of them`}},
		{"grpc.tls without a certificate", "grpc: {tls: {key_file: /ok}}", nil, []string{`c.yaml:1: grpc.tls.cert_file is ""; want cert_file and key_file together`}},
		{"client_ca_file alone", "grpc: {tls: {client_ca_file: /ok}}", nil, []string{`c.yaml:1: grpc.tls.client_ca_file is "/ok"; want cert_file and key_file as well: client certificates need TLS`}},
		{"http.tls missing file", "http: {tls: {cert_file: /none, key_file: /ok}}", nil, []string{`c.yaml:1: http.tls.cert_file is "/none"; want a readable file: file does not exist`}},
		{"limits.stream_time", "limits: {stream_time: 10ms}", nil, []string{"c.yaml:1: limits.stream_time is 10ms; want 1s to 8760h"}},
		{"limits.tenant", "limits: {tenant: {requests_per_second: -1, burst: -1, max_jobs: -1, max_body_bytes: 1}}", nil, []string{
			"c.yaml:1: limits.tenant.requests_per_second is -1; want 0 to 100000", "c.yaml:1: limits.tenant.burst is -1; want 0 to",
			"c.yaml:1: limits.tenant.max_jobs is -1; want 0 to", "c.yaml:1: limits.tenant.max_body_bytes is 1; want 1KiB to 1GiB",
		}},
		{"tenants", "tenants:\n  acme: {max_jobs: -1}\n  a b: {}", nil, []string{"c.yaml:2: tenants.acme.max_jobs is -1; want 0 to", "c.yaml:3: tenants.\"a b\" is not a usable name; want 1 to 64 letters"}},
		{"http.sse_ping", "http: {sse_ping: -1s}", nil, []string{"c.yaml:1: http.sse_ping is -1s; want 10ms to 10m"}},
		{"grpc.addr", "grpc: {addr: 'a b:1'}", nil, []string{`c.yaml:1: grpc.addr is "a b:1"; want host:port`}},
		{"grpc.max_message_bytes", "grpc: {max_message_bytes: 2GiB}", nil, []string{"c.yaml:1: grpc.max_message_bytes is 2GiB; want 1KiB to 1GiB"}},
		{"sandbox.addr", "sandbox: {addr: x}", nil, []string{`c.yaml:1: sandbox.addr is "x"; want host:port`}},
		{"shutdown.grace", "shutdown: {grace: -1s}", nil, []string{"c.yaml:1: shutdown.grace is -1s; want 0s to 1h"}},
		{"chat.max_attempts", "chat: {max_attempts: 0}", nil, []string{"c.yaml:1: chat.max_attempts is 0; want 1 to 10"}},
		{"events.encoding", "events: {encoding: xml}", nil, []string{`c.yaml:1: events.encoding is "xml"; want protobuf or json`}},
		{"limits.claim_check_bytes", "limits: {claim_check_bytes: 8MiB}", nil, []string{"c.yaml:1: limits.claim_check_bytes is 8MiB; want 1KiB to 7MiB"}},
		{"limits.slow_reader_bytes", "limits: {slow_reader_bytes: 1}", nil, []string{"c.yaml:1: limits.slow_reader_bytes is 1; want 4KiB to 1GiB"}},
		{"limits.archive_bytes", "limits: {archive_bytes: 1}", nil, []string{"c.yaml:1: limits.archive_bytes is 1; want 1KiB to 1TiB"}},
		{"limits.bodies_bytes", "limits: {bodies_bytes: 1MiB, archive_bytes: 1MiB}", nil, []string{"c.yaml:1: limits.bodies_bytes is 1MiB; want 64MiB to 1024TiB"}},
		{"limits.bodies_bytes and archive_bytes", "limits: {bodies_bytes: 1GiB}", nil, []string{"c.yaml:1: limits.bodies_bytes is 1GiB; want at least 2GiB, which is limits.archive_bytes: one result must fit"}},
		{"limits.bodies_messages", "limits: {bodies_messages: 1}", nil, []string{"c.yaml:1: limits.bodies_messages is 1; want 1000 to 1000000000"}},
		{"index", "index: perhaps", nil, []string{`c.yaml:1: index is "perhaps"; want auto, on or off`}},
		{"limits.write_timeout", "limits: {write_timeout: 10ms}", nil, []string{"c.yaml:1: limits.write_timeout is 10ms; want 1s to 10m"}},
		{"limits.list_index", "limits: {list_index: 1}", nil, []string{"c.yaml:1: limits.list_index is 1; want 100 to 10000000"}},
		{"log.level", "log: {level: loud}", nil, []string{`c.yaml:1: log.level is "loud"; want debug, info, warn or error`}},
		{"log.format", "log: {format: xml}", nil, []string{`c.yaml:1: log.format is "xml"; want auto, text or json`}},
		{"telemetry.traces", "telemetry: {traces: yes}", nil, []string{`c.yaml:1: telemetry.traces is "yes"; want auto, on or off`}},
		{"telemetry.trace_url", "telemetry: {trace_url: 'javascript:alert({trace_id})'}", nil, []string{`c.yaml:1: telemetry.trace_url is "javascript:alert({trace_id})"; want an http or https URL with {trace_id} in it`}},

		{"nats.prefix", "nats: {prefix: a.*}", nil, []string{`c.yaml:1: nats.prefix is "a.*"; want one or more tokens of letters, digits, _ or -`}},
		{"nats.prefix empty token", "nats: {prefix: a..b}", nil, []string{`c.yaml:1: nats.prefix is "a..b"; want`}},
		{"nats.listen", "nats: {listen: nowhere}", nil, []string{`c.yaml:1: nats.listen is "nowhere"; want host:port`}},
		{"nats.data_dir", "nats: {data_dir: ''}", nil, []string{`c.yaml:1: nats.data_dir is ""; want a directory, such as ./data`}},
		{"nats.replicas embedded", "nats: {replicas: 3}", nil, []string{"c.yaml:1: nats.replicas is 3; want 1 for an embedded server, or nats.url (GENBUS_NATS_URL) of a cluster"}},
		{"nats.replicas cluster", "nats: {url: 'nats://h', replicas: 4}", nil, []string{"c.yaml:1: nats.replicas is 4; want 1, 3 or 5"}},
		{"nats.url scheme", "nats: {url: 'h:4222'}", nil, []string{`c.yaml:1: nats.url is "h:4222"; want nats://host:4222 or tls://host:4222, several separated by commas`}},
		{"nats.url second", "nats: {url: 'nats://h,http://i'}", nil, []string{`c.yaml:1: nats.url is "http://i"; want nats://`}},
		{"nats.url empty list", "nats: {url: ' , '}", nil, []string{`c.yaml:1: nats.url is " , "; want nats://host:4222, or nothing for an embedded server`}},
		{"nats.url credentials in the file", "nats: {url: 'nats://u:hunter2@h'}", nil, []string{"c.yaml:1: nats.url holds credentials; want nats.user with nats.password_env or nats.password_file"}},
		{"nats.url token", "", []string{"GENBUS_NATS_URL=nats://hunter2@h"}, []string{"GENBUS_NATS_URL: nats.url holds a user without a password or a token; want nats://user:password@host:4222"}},
		{"nats.url unreadable", "", []string{"GENBUS_NATS_URL=nats://u:hunter2%@h"}, []string{"GENBUS_NATS_URL: nats.url cannot be parsed; want nats://user:password@host:4222 with special characters percent-encoded"}},
		{"nats.url two users", "", []string{"GENBUS_NATS_URL=nats://u:hunter2@h,nats://v:hunter2@i"}, []string{"GENBUS_NATS_URL: nats.url holds two different users; want one for all servers"}},
		{"nats.url and nats.user", "nats: {user: v, password_env: PW}", []string{"PW=hunter2", "GENBUS_NATS_URL=nats://u:hunter2@h"}, []string{"c.yaml:1: nats.user is set and nats.url holds a user too; want one of them"}},
		{"nats.url and nats.password_env", "nats: {password_env: PW}", []string{"PW=hunter2", "GENBUS_NATS_URL=nats://u:hunter2@h"}, []string{"c.yaml:1: nats.password_env is set and nats.url holds a password too; want one of them"}},
		{"nats.user alone", "nats: {user: u}", nil, []string{`c.yaml:1: nats.user is "u"; want a user together with password_env or password_file, or none of them`}},
		{"nats.password alone", "nats: {password_env: PW}", []string{"PW=hunter2"}, []string{`c.yaml:1: nats.user is ""; want a user together with`}},
		{"nats.password inline", "nats: {password: hunter2}", nil, []string{"c.yaml:1: nats.password is in the file; want password_env: NAME (an environment variable) or password_file: PATH"}},
		{"nats.creds_file embedded", "nats: {creds_file: /ok}", nil, []string{`c.yaml:1: nats.creds_file is "/ok"; want nats.url (GENBUS_NATS_URL) of a cluster as well`}},
		{"nats.creds_file missing", "nats: {url: 'nats://h', creds_file: /none}", nil, []string{`c.yaml:1: nats.creds_file is "/none"; want a readable file: file does not exist`}},
		{"nats.tls.ca_file missing", "nats: {url: 'tls://h', tls: {ca_file: /none}}", nil, []string{`c.yaml:1: nats.tls.ca_file is "/none"; want a readable file`}},
		{"nats.tls.cert_file alone", "nats: {url: 'tls://h', tls: {cert_file: /ok}}", nil, []string{`c.yaml:1: nats.tls.cert_file is "/ok"; want cert_file and key_file together, or none of them`}},
		{"nats.tls embedded, without a key", "nats: {tls: {cert_file: /ok}}", nil, []string{`c.yaml:1: nats.tls.cert_file is "/ok"; want cert_file and key_file together`}},
		{"nats.tls embedded, authorities alone", "nats: {tls: {ca_file: /ok}}", nil, []string{`c.yaml:1: nats.tls.ca_file is "/ok"; want cert_file and key_file as well, or nats.url (GENBUS_NATS_URL) of a cluster`}},
		{"nats.tls embedded, for nobody", "nats: {listen: none, tls: {cert_file: /ok, key_file: /ok}}", nil, []string{`c.yaml:1: nats.tls.cert_file is "/ok"; want nats.listen with an address`}},
		{"nats.streams.bodies.max_bytes", "nats:\n  streams: {bodies: {max_bytes: 21GiB}}\napi_keys: [{tenant: a, key_env: A}, {tenant: b, key_env: B}]", []string{"A=hunter2hunter2a", "B=hunter2hunter2b"}, []string{"c.yaml:2: nats.max_store_bytes is 16GiB; want at least 53568MiB"}},
		{"nats.max_store_bytes", "nats:\n  max_store_bytes: 8GiB", nil, []string{"c.yaml:2: nats.max_store_bytes is 8GiB; want at least 10560MiB, the sum of max_bytes of the streams requests, work (twice), tasks, dead, rejected, usage and ops, and of bodies for each tenant"}},
		{"nats.max_memory_bytes", "nats: {max_memory_bytes: 128MiB}", nil, []string{"c.yaml:1: nats.max_memory_bytes is 128MiB; want at least 256MiB, which is nats.streams.chunks.max_bytes"}},
		{"streams", `nats:
  streams:
    requests: {max_msgs: 0, max_bytes: 1}
    work: {max_msgs: -1, max_bytes: 1}
    tasks: {max_age: 0s, max_bytes: 1}
    chunks: {max_age: 0s, max_bytes: 1}
    dead: {max_age: 0s, max_bytes: 1}
    bodies: {max_bytes: 1GiB}`, nil, []string{
			"c.yaml:4: nats.streams.work.max_bytes is 1; want 1MiB to",
			"c.yaml:8: nats.streams.bodies.max_bytes is 1GiB; want more than 20GiB, which is limits.bodies_bytes, or 0",
			"c.yaml:3: nats.streams.requests.max_msgs is 0; want 1 to 1000000000",
			"c.yaml:3: nats.streams.requests.max_bytes is 1; want 1MiB to 1024TiB",
			"c.yaml:4: nats.streams.work.max_msgs is -1; want 1 to 1000000000",
			"c.yaml:5: nats.streams.tasks.max_age is 0s; want 1s to 87600h",
			"c.yaml:5: nats.streams.tasks.max_bytes is 1; want 1MiB to",
			"c.yaml:6: nats.streams.chunks.max_age is 0s; want 1s to 24h",
			"c.yaml:6: nats.streams.chunks.max_bytes is 1; want 1MiB to 1TiB",
			"c.yaml:7: nats.streams.dead.max_age is 0s; want 60s to 87600h",
			"c.yaml:7: nats.streams.dead.max_bytes is 1; want 1MiB to",
		}},

		{"upstream name", "upstreams: {a.b: {base_url: http://h}}\nroutes: [{name: r, kind: video, upstream: a.b, models: [m]}]", nil, []string{"c.yaml:1: upstreams.a.b is not a usable name; want 1 to 64 letters, digits, _ or -"}},
		{"base_url missing", "upstreams: {u: {}}", nil, []string{"c.yaml:1: upstreams.u.base_url is missing; want http:// or https:// with a host"}},
		{"base_url scheme", "upstreams: {u: {base_url: api.example.com}}", nil, []string{`c.yaml:1: upstreams.u.base_url is "api.example.com"; want http:// or https://`}},
		{"base_url query", "upstreams: {u: {base_url: 'http://h?a=b'}}", nil, []string{"c.yaml:1: upstreams.u.base_url holds a query or a fragment; want the address alone"}},
		{"base_url credentials", "upstreams: {u: {base_url: 'http://u:hunter2@h'}}", nil, []string{"c.yaml:1: upstreams.u.base_url holds credentials or an @; want the address alone"}},
		{"base_url of a resource", "upstreams: {u: {base_url: 'http://h/v1/chat/completions/'}}", nil, []string{`c.yaml:1: upstreams.u.base_url is "http://h/v1/chat/completions"; want "http://h/v1"; genbus adds /chat/completions itself`}},
		{"version_path of a resource", "upstreams: {u: {base_url: 'http://h/x', version_path: /v1/chat/completions}}", nil, []string{`c.yaml:1: upstreams.u.version_path is "/v1/chat/completions"; want the path before that, or "/" for none; genbus adds paths such as /chat/completions itself`}},
		{"two versions", "upstreams: {u: {base_url: 'http://h/v1/', version_path: /v1}}", nil, []string{`c.yaml:1: upstreams.u.version_path is "/v1"; want no version, because base_url ends with one`}},
		{"version_path of a resource after a version", "upstreams: {u: {base_url: 'http://h/v1', version_path: /videos}}", nil, []string{`c.yaml:1: upstreams.u.version_path is "/videos"; want the path before that`}},
		{"base_url of a resource without version", "upstreams: {u: {base_url: 'http://h/x/chat/completions'}}", nil, []string{`c.yaml:1: upstreams.u.base_url is "http://h/x/chat/completions"; want "http://h/x" and version_path: /; genbus adds /chat/completions itself`}},
		{"base_url of models", "upstreams: {u: {base_url: 'http://h/api/v3/models'}}", nil, []string{`c.yaml:1: upstreams.u.base_url is "http://h/api/v3/models"; want "http://h/api/v3"; genbus adds /models itself`}},
		{"base_url of videos", "upstreams: {u: {base_url: 'http://h/v1/videos'}}", nil, []string{`c.yaml:1: upstreams.u.base_url is "http://h/v1/videos"; want "http://h/v1"; genbus adds /videos itself`}},
		{"base_url of generations", "upstreams: {u: {base_url: 'http://h/v1/video/generations'}}", nil, []string{`c.yaml:1: upstreams.u.base_url is "http://h/v1/video/generations"; want "http://h/v1"; genbus adds /video/generations itself`}},
		{"base_url of a vendor's resource", "upstreams: {u: {base_url: 'http://h/v1/videos/text2video'}}", nil, []string{`c.yaml:1: upstreams.u.base_url is "http://h/v1/videos/text2video"; want "http://h/v1"; genbus adds /videos/text2video itself`}},
		{"base_url of a resource with credentials", "upstreams: {u: {base_url: 'http://u:hunter2@h/v1/chat/completions'}}", nil, []string{"c.yaml:1: upstreams.u.base_url holds credentials or an @; want the address alone"}},
		{"base_url of a deployment", "upstreams: {u: {base_url: 'https://r.openai.azure.com/openai/deployments/d'}}", nil, []string{`c.yaml:1: upstreams.u.base_url is "https://r.openai.azure.com/openai/deployments/d"; want Azure's address that ends in /openai/v1; paths below this one need a query`}},
		{"version_path", "upstreams: {u: {base_url: http://h, version_path: v2}}", nil, []string{`c.yaml:1: upstreams.u.version_path is "v2"; want a path such as "/v2", or "/" for none`}},
		{"version_path of a vendor", upstreamK(pairK+", version_path: /v2") + "routes: [{name: r, kind: video, protocol: kling, upstream: k, models: [m]}]", pairs, []string{"c.yaml:2: upstreams.k.version_path changes nothing with auth: signed; want vendor_path, or this one left out"}},
		{"base_url by variable", "", []string{"GENBUS_UPSTREAM_URL=ftp://h"}, []string{`GENBUS_UPSTREAM_URL: upstreams.default.base_url is "ftp://h"; want http://`}},
		{"max_idle_conns", "upstreams: {u: {base_url: http://h, max_idle_conns: -1}}", nil, []string{"c.yaml:1: upstreams.u.max_idle_conns is -1; want 0 to 100000"}},
		{"reuse of nothing", "upstreams: {u: {base_url: http://h, max_idle_conns: 0, reuse_connections_for_creates: true}}", nil, []string{"c.yaml:1: upstreams.u.reuse_connections_for_creates reuses nothing while max_idle_conns is 0"}},
		{"own header, accept-encoding", "upstreams: {u: {base_url: http://h, headers: {accept-encoding: gzip}}}", nil, []string{"c.yaml:1: upstreams.u.headers.accept-encoding is set by genbus itself; want it left out"}},
		{"own header", "upstreams: {u: {base_url: http://h, headers: {Content-Type: a}}}", nil, []string{"c.yaml:1: upstreams.u.headers.Content-Type is set by genbus itself; want it left out"}},
		{"secret header", "upstreams: {u: {base_url: http://h, headers: {Api-Key: hunter2}}}", nil, []string{"c.yaml:1: upstreams.u.headers.Api-Key looks like a secret; want the key in key_env or key_file"}},
		{"header name", "upstreams: {u: {base_url: http://h, headers: {'a:b': c}}}", nil, []string{"c.yaml:1: upstreams.u.headers.a:b is not a header name; want"}},
		{"header value", "upstreams: {u: {base_url: http://h, headers: {X-A: \"a\\nb\"}}}", nil, []string{"c.yaml:1: upstreams.u.headers.X-A has a value that cannot be sent"}},
		{"inline key", "upstreams:\n  u:\n    base_url: http://h\n    key: hunter2", nil, []string{"c.yaml:4: upstreams.u.key is in the file; want key_env: NAME (an environment variable) or key_file: PATH, to keep the secret out of the file"}},
		{"key twice", "upstreams: {u: {base_url: http://h, key_env: A, key_file: /b}}", nil, []string{"c.yaml:1: upstreams.u.key_env and upstreams.u.key_file are both set; want one of them"}},
		{"key_env unset", "upstreams: {u: {base_url: http://h, key_env: NOT_SET}}", nil, []string{`c.yaml:1: upstreams.u.key_env is "NOT_SET"; want the name of an environment variable; this one is not set`}},
		{"key in key_env", "upstreams: {u: {base_url: http://h, key_env: hunter2}}", nil, []string{"c.yaml:1: upstreams.u.key_env is hidden, because it may be the secret itself; want the name of an environment variable"}},
		{"key_file missing", "upstreams: {u: {base_url: http://h, key_file: /none}}", nil, []string{`c.yaml:1: upstreams.u.key_file is "/none"; want a readable file: file does not exist`}},
		{"key in key_file", "upstreams: {u: {base_url: http://h, key_file: hunter2}}", nil, []string{"c.yaml:1: upstreams.u.key_file is hidden, because it may be the secret itself; want a readable file"}},
		{"key file too long", "upstreams: {u: {base_url: http://h, key_file: /long}}", nil, []string{`c.yaml:1: upstreams.u.key_file is "/long"; want a secret of at most 64KiB`}},
		{"key file empty", "upstreams: {u: {base_url: http://h, key_file: /empty}}", nil, []string{`c.yaml:1: upstreams.u.key_file is "/empty"; want a secret; this one is empty`}},
		{"key file of two lines", "upstreams: {u: {base_url: http://h, key_file: /lines}}", nil, []string{`c.yaml:1: upstreams.u.key_file is "/lines"; want a secret of one line`}},
		{"key with a space", "upstreams: {u: {base_url: http://h, key_env: A}}", []string{"A=hunter2 hunter2"}, []string{`c.yaml:1: upstreams.u.key_env is "A"; want a secret of printable ASCII without spaces`}},
		{"key variables without an upstream", "", []string{"GENBUS_UPSTREAM_KEY=hunter2"}, []string{"GENBUS_UPSTREAM_KEY is set, but no upstream uses it; want GENBUS_UPSTREAM_URL too"}},
		{"key file variable without an upstream", "", []string{"GENBUS_UPSTREAM_KEY_FILE=/ok"}, []string{"GENBUS_UPSTREAM_KEY_FILE is set, but no upstream uses it"}},
		{"both key variables", "", []string{"GENBUS_UPSTREAM_URL=http://h", "GENBUS_UPSTREAM_KEY=hunter2", "GENBUS_UPSTREAM_KEY_FILE=/ok"}, []string{"GENBUS_UPSTREAM_KEY_FILE and GENBUS_UPSTREAM_KEY are both set; want one of them"}},
		{"key file variable", "", []string{"GENBUS_UPSTREAM_URL=http://h", "GENBUS_UPSTREAM_KEY_FILE=/none"}, []string{`GENBUS_UPSTREAM_KEY_FILE: upstreams.default.key_file is "/none"; want a readable file`}},
		{"upstream of the environment unused", routeU + "}", []string{"GENBUS_UPSTREAM_URL=http://i"}, []string{`GENBUS_UPSTREAM_URL has no effect: no route uses the upstream "default"; want a route with upstream: default, or the variable unset`}},

		{"auth", "upstreams: {u: {base_url: http://h, auth: basic, access_key_env: A, secret_key_env: B}}", []string{"A=a", "B=b"}, []string{`c.yaml:1: upstreams.u.auth is "basic"; want bearer or signed`}},
		{"key pair with bearer", "upstreams: {u: {base_url: http://h, access_key_env: A, secret_key_env: B}}", []string{"A=hunter2", "B=hunter2"}, []string{"c.yaml:1: upstreams.u.access_key_env is for auth: signed; want auth: signed, or key_env or key_file alone"}},
		{"half a key pair beside a key", "upstreams: {u: {base_url: http://h, key_env: A, secret_key_file: /ok}}", []string{"A=hunter2"}, []string{"c.yaml:1: upstreams.u.access_key_env is for auth: signed; want auth: signed, or key_env"}},
		{"listed key pair with bearer", "upstreams: {u: {base_url: http://h, keys: [{name: a, access_key_env: A, secret_key_env: B}]}}", []string{"A=hunter2", "B=hunter2"}, []string{"c.yaml:1: upstreams.u.keys[0].access_key_env is for auth: signed; want auth: signed, or key_env"}},
		{"listed key missing", "upstreams: {u: {base_url: http://h, keys: [{name: a}]}}", nil, []string{"c.yaml:1: upstreams.u.keys[0].key_env is missing; want key_env: NAME or key_file: PATH"}},
		{"signed with a bearer key", upstreamK("key_env: A") + "routes: [{name: r, kind: video, protocol: kling, upstream: k, models: [m]}]", []string{"A=hunter2"}, []string{"c.yaml:2: upstreams.k.key_env is for auth: bearer; want access_key_env and secret_key_env with auth: signed"}},
		{"signed with half a pair", upstreamK("access_key_env: A") + "routes: [{name: r, kind: video, protocol: kling, upstream: k, models: [m]}]", []string{"A=hunter2"}, []string{"c.yaml:2: upstreams.k.access_key_env is missing; want access_key_env and secret_key_env (or _file) with auth: signed"}},
		{"keys twice", "upstreams: {u: {base_url: http://h, key_env: A, keys: [{name: a, key_env: B}, {name: a, key_env: B}]}}", []string{"A=a", "B=b"}, []string{
			"c.yaml:1: upstreams.u.keys are set together with a key of the upstream itself; want only one of the two",
			`c.yaml:1: upstreams.u.keys[1].name is "a"; want a unique name; keys[0] has this one`,
		}},
		{"vendor_path", "upstreams: {u: {base_url: http://h, vendor_path: kling}}", nil, []string{`c.yaml:1: upstreams.u.vendor_path is "kling"; want a path such as "/kling", or "/" for none`}},

		{"no routes", "upstreams: {u: {base_url: http://h}, v: {base_url: http://h}}", nil, []string{"routes is missing; want at least one route: with several upstreams"}},
		{"route empty", upstreamU + "routes:\n- {}", nil, []string{
			"c.yaml:3: routes[0].name is missing; want 1 to 64 letters, digits, _ or -",
			`c.yaml:3: routes[0].kind is ""; want video or chat`,
			`c.yaml:3: routes[0].models is missing; want a list of model names, prefixes such as "wan-*", or "*"`,
			`c.yaml:3: routes[0].upstream is ""; want the name of an upstream: u`,
		}},
		{"route name", upstreamU + "routes:\n- {name: a.b, kind: video, upstream: u, models: [m]}", nil, []string{`c.yaml:3: routes[0].name is "a.b"; want 1 to 64 letters, digits, _ or -`}},
		{"route name twice", routeU + "}\n- {name: r, kind: chat, upstream: u, models: [m]}", nil, []string{`c.yaml:4: routes[1].name is "r"; want a unique name; routes[0] has this one`}},
		{"route upstream", "upstreams: {a: {base_url: http://h}, b: {base_url: http://h}}\nroutes:\n- {name: r, kind: video, upstream: c, models: [m]}", nil, []string{`c.yaml:3: routes[0].upstream is "c"; want the name of an upstream: a or b`}},
		{"no upstream", "routes:\n- {name: r, kind: video, upstream: c, models: [m]}", nil, []string{`c.yaml:2: routes[0].upstream is "c"; want the name of an upstream; add one under upstreams`}},
		{"on_unknown_outcome", routeU + "on_unknown_outcome: retry}", nil, []string{`c.yaml:3: routes[0].on_unknown_outcome is "retry"; want fail or resubmit`}},
		{"protocol", routeU + "protocol: other}", nil, []string{`c.yaml:3: routes[0].protocol is "other"; want primary`}},
		{"timeouts of a video", routeU + "timeouts: {idle: 1m, total: 1h}}", nil, []string{`c.yaml:3: routes[0].timeouts.idle is for chat routes; want it left out`, `c.yaml:3: routes[0].timeouts.total is for chat routes; want it left out`}},
		{"video keys of a chat", upstreamU + "routes:\n- {name: r, kind: chat, upstream: u, models: [m], poll: {interval: 1s}, on_unknown_outcome: resubmit}", nil, []string{`c.yaml:3: routes[0].poll is for video routes; want it left out`, `c.yaml:3: routes[0].on_unknown_outcome is for video routes; want it left out`}},
		{"queued_usage of a video", routeU + "queued_usage: false}", nil, []string{`c.yaml:3: routes[0].queued_usage is for chat routes; want it left out`}},
		{"timeouts of a chat", upstreamU + "routes:\n- {name: r, kind: chat, upstream: u, models: [m], timeouts: {create: 90s, queue: 1h}}", nil, []string{`c.yaml:3: routes[0].timeouts.create is for video routes; want it left out`}},
		{"retry_timeouts of a video", routeU + "retry_timeouts: true}", nil, []string{`c.yaml:3: routes[0].retry_timeouts is for chat routes; want it left out`}},
		{"chat protocol", upstreamU + "routes:\n- {name: r, kind: chat, upstream: u, models: [m], protocol: primary}", nil, []string{`c.yaml:3: routes[0].protocol is "primary"; want no protocol; only video routes have one`}},
		{"what only videos have", upstreamU + "routes:\n- {name: r, kind: chat, upstream: u, models: [m], archive: true, gateway: true, input_reference: string, body: json}", nil, []string{
			"c.yaml:3: routes[0].archive is for video routes; want it left out",
			"c.yaml:3: routes[0].gateway is for video routes; want it left out",
			"c.yaml:3: routes[0].input_reference is for video routes; want it left out",
			"c.yaml:3: routes[0].body is for video routes; want it left out",
		}},
		{"body", routeU + "protocol: videos, body: form}", nil, []string{`c.yaml:3: routes[0].body is "form"; want json or multipart`}},
		{"body of another protocol", routeU + "body: multipart}", nil, []string{"c.yaml:3: routes[0].body is for protocol videos; want it left out with protocol primary"}},
		{"input_reference", routeU + "protocol: videos, input_reference: file}", nil, []string{`c.yaml:3: routes[0].input_reference is "file"; want object or string`}},
		{"input_reference of another protocol", routeU + "protocol: kling, input_reference: string}", nil, []string{"c.yaml:3: routes[0].input_reference is for protocol videos; want it left out with protocol kling"}},
		{"gateway of primary", routeU + "gateway: true}", nil, []string{"c.yaml:3: routes[0].gateway changes nothing with protocol primary; want it left out"}},
		{"signed without a signature", upstreamK(pairK) + "routes: [{name: r, kind: video, protocol: videos, upstream: k, models: [m]}]", pairs, []string{
			`c.yaml:3: routes[0].upstream is "k" (auth: signed), but route "r" speaks protocol videos, which has no signature; want protocol kling or jimeng, or an upstream with auth: bearer`}},
		{"signed, second upstream", upstreamK(pairK) + "  u: {base_url: http://h}\nroutes:\n- {name: r, kind: video, upstreams: [{name: u}, {name: k}], models: [m]}", pairs, []string{
			`c.yaml:5: routes[0].upstreams[1].name is "k" (auth: signed), but route "r" speaks protocol primary, which has no signature`}},
		{"signed chats", upstreamK(pairK) + "routes: [{name: c, kind: chat, upstream: k, models: [m]}]", pairs, []string{
			`c.yaml:3: routes[0].upstream is "k" (auth: signed), but route "c" is for chats, which cannot be signed; want an upstream with auth: bearer`}},
		{"signed, no routes", upstreamK(pairK), pairs, []string{
			`routes[0].upstream is "k" (auth: signed), but route "video" speaks protocol primary, which has no signature; want protocol kling or jimeng`,
			`routes[1].upstream is "k" (auth: signed), but route "chat" is for chats, which cannot be signed`,
		}},
		{"pattern", upstreamU + "routes:\n- {name: r, kind: chat, upstream: u, models: [ok, 'a*b', '', 'a b', '**']}", nil, []string{
			`c.yaml:3: routes[0].models[1] is "a*b"; want a model name, a prefix such as "wan-*", or "*"; * is allowed only at the end`,
			`c.yaml:3: routes[0].models[2] is ""; want a model name`,
			`c.yaml:3: routes[0].models[3] is "a b"; want a model name`,
			`c.yaml:3: routes[0].models[4] is "**"; want a model name`,
		}},
		{"pattern twice", routeU + "}\n- name: s\n  kind: video\n  upstream: u\n  models:\n  - other\n  - m", nil, []string{`c.yaml:9: routes[1].models[1] is "m"; want a pattern that no other video route has; routes[0] (r) has it too`}},
		{"pattern twice in one route", upstreamU + "routes:\n- {name: r, kind: chat, upstream: u, models: ['a*', 'a*']}", nil, []string{`c.yaml:3: routes[0].models[1] is "a*"; want a pattern that no other chat route has; routes[0] (r) has it too`}},
		{"two mappings", routeU + "upstream_model: a, model_map: {m: b}}", nil, []string{`c.yaml:3: routes[0].upstream_model is "a"; want either upstream_model or model_map, not both`}},
		{"upstream_model", routeU + "upstream_model: a b}", nil, []string{`c.yaml:3: routes[0].upstream_model is "a b"; want a model name`}},
		{"model_map", routeU + "model_map: {m: ''}}", nil, []string{`c.yaml:3: routes[0].model_map.m is ""; want a model name for a model name`}},
		{"bounds", routeU + `
  max_in_flight: -1, max_queued: 0, ready_jobs: -1, ack_wait: 2s,
  poll: {interval: 9ms, jitter: 0.6},
  timeouts: {queue: 0s, create: 0s, deadline: 0s, archive: 0s}}`, nil, []string{
			"c.yaml:4: routes[0].max_in_flight is -1; want 1 to 1000000",
			"c.yaml:4: routes[0].max_queued is 0; want 1 to 1000000000",
			"c.yaml:4: routes[0].ready_jobs is -1; want 0 to 1000000000",
			"c.yaml:4: routes[0].ack_wait is 2s; want 3s to 1h",
			"c.yaml:5: routes[0].poll.interval is 9ms; want 10ms to 1h",
			"c.yaml:5: routes[0].poll.jitter is 0.6; want 0 to 0.5",
			"c.yaml:6: routes[0].timeouts.queue is 0s; want 10ms to 8760h",
			"c.yaml:6: routes[0].timeouts.create is 0s; want 10ms to 1h",
			"c.yaml:6: routes[0].timeouts.deadline is 0s; want 10ms to 8760h",
			"c.yaml:6: routes[0].timeouts.archive is 0s; want 10ms to 24h",
		}},
		{"bounds of a chat", upstreamU + "routes:\n- {name: r, kind: chat, upstream: u, models: [m], timeouts: {first_byte: 0s, idle: 0s, total: 0s}}", nil, []string{
			"c.yaml:3: routes[0].timeouts.first_byte is 0s; want 10ms to 24h",
			"c.yaml:3: routes[0].timeouts.idle is 0s; want 10ms to 24h",
			"c.yaml:3: routes[0].timeouts.total is 0s; want 10ms to 24h",
		}},
		{"log too short for videos", routeU + "timeouts: {deadline: 36h}}\nnats:\n  streams:\n    tasks: {max_age: 168h}", nil, []string{
			"c.yaml:6: nats.streams.tasks.max_age is 168h; want more than 168h20m, twice the longest life of a job of routes[0] (r); or a shorter timeouts.queue, deadline or archive there"}},
		{"log too short for chats", upstreamU + "routes:\n- {name: c, kind: chat, upstream: u, models: [m], timeouts: {queue: 84h}}", nil, []string{
			"nats.streams.tasks.max_age is 168h; want more than 170h, twice the longest life of a job of routes[0] (c)"}},

		{"tenant", "api_keys: [{tenant: a b, key_env: A}]", []string{"A=hunter2"}, []string{`c.yaml:1: api_keys[0].tenant is "a b"; want 1 to 64 letters, digits, _ or -`}},
		{"tenant missing", "api_keys: [{key_env: A}]", []string{"A=hunter2"}, []string{"c.yaml:1: api_keys[0].tenant is missing; want 1 to 64 letters"}},
		{"api key missing", "api_keys: [{tenant: a}]", nil, []string{"c.yaml:1: api_keys[0].key_env is missing; want key_env: NAME, key_file: PATH or key_sha256: HASH"}},
		{"api key inline", "api_keys:\n- tenant: a\n  key: hunter2\n  key_env: A", []string{"A=x"}, []string{"c.yaml:3: api_keys[0].key is in the file; want key_env: NAME"}},
		{"api key twice", "api_keys:\n- {tenant: a, key_env: A}\n- {tenant: b, key_env: B}", []string{"A=hunter2", "B=hunter2"}, []string{"c.yaml:3: api_keys[1] holds the same key (variable B) as api_keys[0] (variable A); want a different key for each entry, or remove one of the two"}},
		{"access key alone", "api_keys: [{tenant: a, access_key: ak}]", nil, []string{"c.yaml:1: api_keys[0].access_key and the secret key belong together; want both or neither"}},
		{"access key twice", "api_keys: [{tenant: a, access_key: ak, secret_key_env: A}, {tenant: b, access_key: ak, secret_key_env: A}]", []string{"A=0123456789abcdef"}, []string{`c.yaml:1: api_keys[1].access_key is "ak"; want a unique access key; api_keys[0] has this one`}},
		{"access key with a slash and a comma", "api_keys: [{tenant: a, access_key: 'a/b, c', secret_key_env: A}]", []string{"A=0123456789abcdef"}, []string{`c.yaml:1: api_keys[0].access_key is "a/b, c"; want 1 to 128 letters, digits, _, . or -`}},
		{"long access key", "api_keys: [{tenant: a, access_key: " + strings.Repeat("a", 129) + ", secret_key_env: A}]", []string{"A=0123456789abcdef"}, []string{`c.yaml:1: api_keys[0].access_key is "aaa`}},
		{"short secret key", "api_keys: [{tenant: a, access_key: ak, secret_key_env: A}, {tenant: a, access_key: al, secret_key_file: /ok}]", []string{"A=hunter2hunter2x"}, []string{
			"c.yaml:1: api_keys[0].secret_key_env names a secret of fewer than 16 bytes (variable A), which can be guessed; want a longer one",
			"c.yaml:1: api_keys[1].secret_key_file names a secret of fewer than 16 bytes",
		}},
		{"short key that others can try", "", []string{"GENBUS_HTTP_ADDR=:8080", "GENBUS_API_KEY=hunter2"}, []string{"api_keys[0].key_env names a secret of fewer than 16 bytes (variable GENBUS_API_KEY), which can be guessed; want a longer one, such as \"genbus key new\" prints"}},
		{"short key of a file", "grpc: {addr: ':9090'}\napi_keys: [{tenant: a, key_file: /ok}]", nil, []string{"c.yaml:2: api_keys[0].key_file names a secret of fewer than 16 bytes (file /ok)"}},
		{"key_sha256", "api_keys: [{tenant: a, key_sha256: hunter2}]", nil, []string{"c.yaml:1: api_keys[0].key_sha256 is not a hash; want 64 hexadecimal digits, as \"genbus key new\" prints them"}},
		{"key_sha256 too long", "api_keys: [{tenant: a, key_sha256: " + strings.Repeat("0a", 33) + "}]", nil, []string{"c.yaml:1: api_keys[0].key_sha256 is not a hash"}},
		{"key_sha256 beside a key", "api_keys: [{tenant: a, key_env: A, key_sha256: " + strings.Repeat("0a", 32) + "}]", []string{"A=hunter2"}, []string{"c.yaml:1: api_keys[0].key_sha256 and a place of the key are both set; want one of them"}},
		{"key_sha256 of another entry's key", "api_keys:\n- {tenant: a, key_env: A}\n- {tenant: b, key_sha256: " + sha("hunter2") + "}", []string{"A=hunter2"}, []string{"c.yaml:3: api_keys[1] holds the same key as api_keys[0] (variable A)"}},
		{"not_after", "api_keys: [{tenant: a, key_env: A, not_after: tomorrow}]", []string{"A=hunter2"}, []string{`c.yaml:1: api_keys[0].not_after is "tomorrow"; want a time such as 2026-12-01T00:00:00Z`}},
		{"operator name", "operator_keys: [{key_sha256: " + sha("hunter2") + "}]", nil, []string{"c.yaml:1: operator_keys[0].name is missing; want 1 to 64 letters"}},
		{"operator key missing", "operator_keys: [{name: a}]", nil, []string{"c.yaml:1: operator_keys[0].key_env is missing; want key_env: NAME, key_file: PATH or key_sha256: HASH"}},
		{"operator key inline", "operator_keys:\n- name: a\n  key: hunter2\n  key_env: A", []string{"A=0123456789abcdef"}, []string{"c.yaml:3: operator_keys[0].key is in the file; want key_env: NAME (an environment variable) or key_file: PATH, or key_sha256: HASH, to keep"}},
		{"short operator key", "operator_keys: [{name: a, key_env: A}]", []string{"A=hunter2"}, []string{"c.yaml:1: operator_keys[0].key_env names a secret of fewer than 16 bytes"}},
		{"operator not_after", "operator_keys: [{name: a, key_env: A, not_after: '2026-12-01'}]", []string{"A=0123456789abcdef"}, []string{`c.yaml:1: operator_keys[0].not_after is "2026-12-01"; want a time such as`}},
		{"an operator with a tenant's key", "operator_keys: [{name: a, key_env: A}]", []string{"A=hunter2hunter2hunter2", "GENBUS_API_KEY=hunter2hunter2hunter2"}, []string{"c.yaml:1: operator_keys[0] holds the same key (variable A) as api_keys[0] (variable GENBUS_API_KEY); want a different key for each entry"}},
		{"an operator's key twice", "operator_keys: [{name: a, key_env: A}, {name: b, key_file: /key}]", []string{"A=hunter2hunter2hunter2"}, []string{"c.yaml:1: operator_keys[1] holds the same key (file /key) as operator_keys[0] (variable A); want a different key"}},
		{"a tenant's key in the environment too", "api_keys: [{tenant: a, key_file: /key}]", []string{"GENBUS_API_KEY=hunter2hunter2hunter2"}, []string{"c.yaml:1: api_keys[1] holds the same key (variable GENBUS_API_KEY) as api_keys[0] (file /key); want a different key"}},
		{"both operator key variables", "", []string{"GENBUS_OPERATOR_KEY=hunter2hunter2hunter2", "GENBUS_OPERATOR_KEY_FILE=/ok"}, []string{"GENBUS_OPERATOR_KEY_FILE and GENBUS_OPERATOR_KEY are both set; want one of them"}},
		{"both api key variables", "", []string{"GENBUS_API_KEY=hunter2", "GENBUS_API_KEY_FILE=/ok"}, []string{"GENBUS_API_KEY_FILE and GENBUS_API_KEY are both set; want one of them"}},
		{"http for all", "http: {addr: '0.0.0.0:8080'}", nil, []string{`c.yaml:1: http.addr is "0.0.0.0:8080"; want a loopback address such as 127.0.0.1, or API keys (api_keys in the file, or GENBUS_API_KEY): without keys, everyone who can reach it may use it`}},
		{"grpc for all", "", []string{"GENBUS_GRPC_ADDR=:9090"}, []string{`GENBUS_GRPC_ADDR: grpc.addr is ":9090"; want a loopback address such as 127.0.0.1, or API keys`}},
		{"nats for all", "nats: {listen: '[::]:4222'}", nil, []string{`c.yaml:1: nats.listen is "[::]:4222"; want a loopback address such as 127.0.0.1, or nats.user with nats.password_env`}},
		{"nats for all, with API keys", "nats: {listen: 'host:4222'}", []string{"GENBUS_API_KEY=hunter2"}, []string{`c.yaml:1: nats.listen is "host:4222"; want a loopback address such as 127.0.0.1, or nats.user with nats.password_env`}},
		{"one port for two", "grpc: {addr: '127.0.0.1:8080'}", nil, []string{`c.yaml:1: grpc.addr is "127.0.0.1:8080"; want a unique address; http.addr has this one`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := files{"c.yaml": tc.text, "/ok": "x", "/key": "hunter2hunter2hunter2\n", "/empty": "\n", "/lines": "hunter2\nhunter2\n", "/long": strings.Repeat("x", maxSecretBytes+1)}
			_, err := loadFiles(f, tc.environ...)
			wantLines(t, err, tc.want...)
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a secret:\n%v", err)
			}
		})
	}
}

func TestAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := loadText("http:\n  addr: x\n  zebra: 1\nlog: {level: loud}\n", "GENBUS_GRPC_ADDR=y", "GENBUS_LOGLEVEL=info")
	wantLines(t, err, "c.yaml:2: http.addr is", "c.yaml:3: http.zebra is", "c.yaml:4: log.level is", "GENBUS_GRPC_ADDR: grpc.addr is",
		"GENBUS_LOGLEVEL is not a known variable; did you mean GENBUS_LOG_LEVEL?")
}

// TestOneMistakeIsOneProblem checks that problems that only follow from another one are not
// reported.
func TestOneMistakeIsOneProblem(t *testing.T) {
	t.Parallel()
	const route = "routes: [{name: r, kind: video, upstream: u, models: [m]}]"
	for _, tc := range []struct {
		text    string
		environ []string
		want    string
	}{
		{"upstreams: {u: http://h}\n" + route, nil, "c.yaml:1: upstreams.u is a single value; want key: value pairs"},
		{"upstreams: [{name: u, base_url: http://h}]\n" + route, nil, "c.yaml:1: upstreams is a list; want key: value pairs"},
		{"upstream: {u: {base_url: http://h}}\n" + route, nil, "c.yaml:1: upstream is not a known key; did you mean upstreams?"},
		{"upstreams: {u: {base_url: http://h}, v: {base_url: http://h}}\nroute: []", nil, "c.yaml:2: route is not a known key; did you mean routes?"},
		{upstreamU + "routes: [{name: r, kind: vidoe, upstream: u, models: [m]}]", nil, `c.yaml:2: routes[0].kind is "vidoe"; want video or chat`},
		{upstreamU + "routes: [{name: r, knd: video, upstream: u, models: [m]}]", nil, "c.yaml:2: routes[0].knd is not a known key; did you mean kind?"},
		{upstreamU + "routes: [r]", nil, "c.yaml:2: routes[0] is a single value; want key: value pairs"},
		{routeU + "max_in_flight: 10_000_000}", nil, "c.yaml:3: routes[0].max_in_flight is 10000000; want"},
		{routeU + "timeouts: {queue: 100000h}}", nil, "c.yaml:3: routes[0].timeouts.queue is 100000h; want"},
		{"http: {addr: ':8080'}\napi_keys: {tenant: a}", nil, "c.yaml:2: api_keys is a mapping; want a list"},
		{"http: {addr: ':8080'}\napikeys: [{tenant: a}]", nil, "c.yaml:2: apikeys is not a known key; did you mean api_keys?"},
		{"upstreams: {u: {base_url: http://h, api_key: hush}}\n" + route, nil, "c.yaml:1: upstreams.u.api_key is not a known key; did you mean key_env?"},
		{upstreamK("acces_key_env: AK, secret_key_env: SK") + "routes: [{name: r, kind: video, protocol: kling, upstream: k, models: [m]}]", pairs, "c.yaml:2: upstreams.k.acces_key_env is not a known key; did you mean access_key_env?"},
		{"nats: {url: 'nats://h:4222', user: u, pasword_env: A}", nil, "c.yaml:1: nats.pasword_env is not a known key; did you mean password_env?"},
		{"", []string{"GENBUS_UPSTREAM_KEY=x", "GENBUS_UPSTREAM_ULR=http://h"}, "GENBUS_UPSTREAM_ULR is not a known variable; did you mean GENBUS_UPSTREAM_URL?"},
		{"a: [", []string{"GENBUS_UPSTREAM_KEY=x", "GENBUS_HTTP_ADDR=:8080"}, "c.yaml: "},
	} {
		_, err := loadText(tc.text, tc.environ...)
		wantLines(t, err, tc.want)
	}
	// A wrong guess suppresses no other problem.
	_, err := loadText("upstream: {}\nupstreams: {u: {base_url: x}}\nhttp: {adr: x}", "GENBUS_HTTP_ADDR=y")
	wantLines(t, err, "c.yaml:1: upstream is not", "c.yaml:2: upstreams.u.base_url is", "c.yaml:3: http.adr is not", "GENBUS_HTTP_ADDR: http.addr is")
}

func TestProblemsAreLimited(t *testing.T) {
	t.Parallel()
	_, err := loadText(upstreamU + "routes:\n" + strings.Repeat("- {kind: chat, models: [a b], upstream: u, max_in_flight: 1}\n", 100))
	if lines := strings.Split(err.Error(), "\n"); len(lines) != maxProblems+1 || lines[maxProblems] != "and 150 more problems" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

// TestProblemsAreInTheOrderOfTheFile checks that problems outside the file come first, and that a
// long list is cut at its end.
func TestProblemsAreInTheOrderOfTheFile(t *testing.T) {
	t.Parallel()
	_, err := loadText("log: {level: loud}\nroutes: [{name: r, kind: vidoe, upstream: u, models: [m]}]\nhttp:\n  zebra: 1\n  addr: x\nupstreams: {u: {base_url: x}}\n", "GENBUS_GRPC_ADDR=y")
	var at []string
	for line := range strings.SplitSeq(err.Error(), "\n") {
		at = append(at, strings.Join(strings.Split(line, ":")[:2], ":"))
	}
	if got, want := strings.Join(at, " "), "GENBUS_GRPC_ADDR: grpc.addr is \"y\"; want host c.yaml:1 c.yaml:2 c.yaml:4 c.yaml:5 c.yaml:6"; got != want {
		t.Errorf("the problems are at\n%s, want\n%s", got, want)
	}
	_, err = loadText("log: {level: loud}\n" + upstreamU + "routes:\n" + strings.Repeat("- {kind: chat, models: [a b], upstream: u, max_in_flight: 1}\n", 100) + "http: {addr: x}\n")
	if first, _, _ := strings.Cut(err.Error(), "\n"); !strings.HasPrefix(first, "c.yaml:1: log.level") || strings.Contains(err.Error(), "http.addr") {
		t.Errorf("of many problems are shown\n%v", err)
	}
}

func TestFileThatCannotBeRead(t *testing.T) {
	t.Parallel()
	_, err := Load(Source{File: "/none", ReadFile: files{}.read})
	wantLines(t, err, "cannot read the configuration file: open /none: file does not exist; want a YAML file, set with GENBUS_CONFIG")
	_, err = loadText(strings.Repeat("#", maxFileBytes+1))
	wantLines(t, err, "c.yaml is longer than 1MiB; want a configuration file")
}

func TestListeningThatIsAllowed(t *testing.T) {
	t.Parallel()
	for _, tc := range [][]string{
		{"GENBUS_HTTP_ADDR=localhost:8080"},
		{"GENBUS_HTTP_ADDR=[::1]:8080"},
		{"GENBUS_HTTP_ADDR=127.0.0.2:0", "GENBUS_GRPC_ADDR=127.0.0.2:0"},
		{"GENBUS_NATS_LISTEN=none"},
		{"GENBUS_HTTP_ADDR=:8080", "GENBUS_GRPC_ADDR=:9090", "GENBUS_API_KEY=0123456789abcdef"}, {"GENBUS_API_KEY=k"},
		{"GENBUS_NATS_URL=nats://n:4222", "GENBUS_NATS_LISTEN=0.0.0.0:4222"},
	} {
		mustLoad(t, "", tc...)
	}
	mustLoad(t, "nats: {listen: ':4222', user: u, password_env: PW}", "PW=p", "GENBUS_API_KEY=k") // NATS clients send no API keys
	mustLoad(t, "nats: {listen: ':4222', user: u, password_env: PW}", "PW=p")
}
