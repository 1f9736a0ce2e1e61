package command

import "testing"

// TestServerWithoutAPort checks that a host without a port gets the gRPC port of genbus, not the 443
// of gRPC, and that other targets stay as they are.
func TestServerWithoutAPort(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"localhost": "localhost:9090", "genbus.example": "genbus.example:9090", "192.0.2.1": "192.0.2.1:9090", "::1": "[::1]:9090", "[::1]": "[::1]:9090",
		"localhost:443": "localhost:443", "[::1]:1": "[::1]:1", "dns:///localhost": "dns:///localhost", "unix:///run/genbus.sock": "unix:///run/genbus.sock", "unix:run.sock": "unix:run.sock",
	} {
		c := connection{Server: server}
		conn, err := c.dial(false)
		if err != nil {
			t.Errorf("%s: %v", server, err)
			continue
		}
		if got := conn.Target(); got != want {
			t.Errorf("%s dials %s, want %s", server, got, want)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, server := range []string{"localhost", "::1", "[::1]", "127.0.0.1"} {
		c := connection{Server: server}
		conn, err := c.dial(true)
		if err != nil {
			t.Errorf("%s, which is this machine, gets no key: %v", server, err)
			continue
		}
		_ = conn.Close()
	}
}

func TestPlaintextOverridesTheVariable(t *testing.T) {
	t.Setenv(envCA, "missing.pem")
	for c, want := range map[connection]bool{
		{}:                              true,
		{Plaintext: true}:               false,
		{Plaintext: true, CA: "ca.pem"}: true,
		{Plaintext: true, TLS: true}:    true,
	} {
		if got := c.secure(); got != want {
			t.Errorf("%+v: TLS is %v, want %v", c, got, want)
		}
	}
}
