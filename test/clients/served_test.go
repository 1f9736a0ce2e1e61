package clients_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/genbus/genbus/internal/command"
)

// served is a genbus in another process, as clients see it.
type served struct{ http, grpc, nats, key, tenant string }

// serveSandbox starts `genbus serve --sandbox` on free ports. If CLIENTS_HTTP is set, clients use
// that genbus instead, with CLIENTS_GRPC, CLIENTS_NATS, CLIENTS_KEY and CLIENTS_TENANT.
func serveSandbox(t *testing.T) served {
	t.Helper()
	s := served{
		http: os.Getenv("CLIENTS_HTTP"), grpc: cmp.Or(os.Getenv("CLIENTS_GRPC"), command.DefaultServer),
		nats: cmp.Or(os.Getenv("CLIENTS_NATS"), nats.DefaultURL), key: cmp.Or(os.Getenv("CLIENTS_KEY"), "any"),
		tenant: cmp.Or(os.Getenv("CLIENTS_TENANT"), "default"),
	}
	if s.http != "" {
		return s
	}
	file := filepath.Join(t.TempDir(), "genbus.yaml")
	if err := os.WriteFile(file, []byte("http: {sse_ping: 20ms} # so that every client meets comments in streams\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	service := exec.Command(os.Args[0], "serve", "--sandbox", "--config", file)
	service.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GENBUS_") }),
		runAsService+"=1", "GENBUS_DATA_DIR="+t.TempDir(), "GENBUS_NATS_LISTEN=127.0.0.1:0",
		"GENBUS_HTTP_ADDR=127.0.0.1:0", "GENBUS_GRPC_ADDR=127.0.0.1:0", "GENBUS_LOG_FORMAT=json")
	log, err := service.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := service.Start(); err != nil {
		t.Fatal(err)
	}
	listening, silent := make(chan served, 1), make(chan struct{})
	go func() {
		defer close(silent)
		for lines := bufio.NewScanner(log); lines.Scan(); {
			var line struct{ Msg, HTTP, GRPC, NATS string }
			if err := json.Unmarshal(lines.Bytes(), &line); err == nil && line.Msg == "listening" {
				listening <- served{line.HTTP, line.GRPC, line.NATS, s.key, s.tenant}
			}
			t.Log(lines.Text())
		}
	}()
	t.Cleanup(func() {
		if err := service.Process.Signal(os.Interrupt); err != nil {
			t.Error(err)
		}
		<-silent // Wait closes the pipe
		if err := service.Wait(); err != nil {
			t.Errorf("the service ended: %v", err)
		}
	})
	select {
	case s = <-listening:
	case <-silent:
		t.Fatal("the service ended before it listened")
	case <-time.After(clientTime):
		t.Fatal("the service does not say where it listens")
	}
	return s
}

func (s served) jetStream(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := nats.Connect(s.nats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return nc, js
}
