package listener

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/genbus/genbus/internal/listener/certtest"
)

// TestBrokenFilesAreNotTaken proves that unusable files do not replace the previous configuration,
// and that they are logged once.
func TestBrokenFilesAreNotTaken(t *testing.T) {
	t.Parallel()
	ca := certtest.New(t, "ca")
	certFile, keyFile := ca.Issue("server")
	var log bytes.Buffer
	s := &secured{files: Files{Cert: certFile, Key: keyFile, ClientCA: ca.File}, log: slog.New(slog.NewTextHandler(&log, nil))}
	if err := s.read(); err != nil {
		t.Fatal(err)
	}
	first, now := s.config, time.Now()
	if s.current(now) != first {
		t.Error("unchanged files are read again")
	}
	half, err := os.ReadFile(certFile)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, certFile, half[:len(half)/2])
	if s.current(now.Add(lookEvery/2)) != first {
		t.Error("the files are looked at before their time")
	}
	for i := range 3 {
		if s.current(now.Add(time.Duration(i+1)*lookEvery)) != first {
			t.Error("half a certificate is taken")
		}
	}
	if n := strings.Count(log.String(), "could not load changed TLS files"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
	if strings.Contains(log.String(), "PRIVATE") {
		t.Error("the log shows a file")
	}
	ca.Issue("server")
	second := s.current(now.Add(10 * lookEvery))
	if second == first || second.ClientCAs == nil {
		t.Errorf("the new files are not taken: %+v", second)
	}
	if err := os.Remove(keyFile); err != nil {
		t.Fatal(err)
	}
	if s.current(now.Add(20*lookEvery)) != second {
		t.Error("a file that is gone ends what was read")
	}
}

func replace(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
