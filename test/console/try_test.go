package console_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/genbus/genbus/internal/config"
	"github.com/genbus/genbus/internal/listener/certtest"
)

// TestTryAChat proves that the reply of a chat arrives in pieces.
func TestTryAChat(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	b.goTo("/console/try")
	b.until("commands", `document.getElementById("cmd-curl").textContent.startsWith("curl")`)
	eval[bool](b, `(() => {
		window.lengths = [];
		const text = document.getElementById("try-text");
		new MutationObserver(() => window.lengths.push(text.textContent.length)).observe(text, {childList: true, subtree: true, characterData: true});
		return true;
	})()`)
	b.click("#try button")
	b.until("whole answer", `document.getElementById("try-status").textContent.startsWith("Completed")`)
	b.looks("chat")
	if n := eval[int](b, `new Set(window.lengths.filter((n) => n > 0)).size`); n < 2 {
		t.Errorf("the text came in %d pieces", n)
	}
	if command := eval[string](b, `document.getElementById("cmd-curl").textContent`); !strings.HasPrefix(command, "curl") {
		t.Errorf("the command became %q", command)
	}
	b.click("#try-link a")
	b.until("page of the job", `/^\/console\/jobs\/chat\/default\/chat_/.test(location.pathname)`)
	b.shows("completed")
}

// TestTryAVideo proves that a video is followed to its end and can be played.
func TestTryAVideo(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	b.goTo("/console/try")
	b.click("input[value=video]")
	b.click("#try button")
	b.until("progress", `/^In progress, [1-9]/.test(document.getElementById("try-status").textContent)`)
	b.plays()
	b.looks("video")
}

// TestTryAVideoOfEveryProtocol proves that the form sends a request that the model's route accepts,
// for each protocol.
func TestTryAVideoOfEveryProtocol(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	for _, model := range []string{"sandbox-videos", "sandbox-kling", "sandbox-jimeng"} {
		b.goTo("/console/try")
		b.click("input[value=video]")
		eval[string](b, `document.getElementById("try-model").value = "`+model+`"`)
		b.click("#try button")
		b.until("end of "+model, `document.getElementById("try-status").textContent.startsWith("Completed")`)
	}
}

// TestTryFails proves that a failed video is explained in a sentence with what to do.
func TestTryFails(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	b.goTo("/console/try")
	b.click("input[value=video]")
	eval[string](b, `document.getElementById("try-model").value = "sandbox-video:duration_ms=100,fail=too dark"`)
	b.click("#try button")
	b.shows("upstream_failed: too dark")
	b.shows("Failed.")
	b.looks("failed")
}

// plays waits for a player that has loaded the video.
func (b *browser) plays() {
	b.t.Helper()
	b.until("player", `!document.getElementById("try-video").hidden`)
	b.until("video", `document.getElementById("try-video").duration > 0`)
}

// TestTryIsRefused proves that Try says in sentences why a request is refused, and what to do.
func TestTryIsRefused(t *testing.T) {
	t.Parallel()
	b := open(t, start(t).base)
	b.goTo("/console/try")
	eval[string](b, `document.getElementById("try-model").value = "no-such-model"`)
	b.click("#try button")
	b.shows(`model_not_found: no chat route serves the model "no-such-model"; see GET /v1/models`)
	b.shows("HTTP status 404.")
	if text := eval[string](b, `document.getElementById("try-result").innerText`); strings.Contains(text, "{") {
		t.Errorf("the answer is shown raw: %s", text)
	}
	b.looks("refused")
}

// TestTryWithAKey proves that Try works and plays videos with a tenant key, and keeps the key out of
// the command shown.
func TestTryWithAKey(t *testing.T) {
	t.Parallel()
	b := open(t, start(t, withOperators, withTenants("acme")).base).login(opsKey)
	b.goTo("/console/try")
	eval[string](b, `document.getElementById("try-key").value = "`+keyOf("acme")+`"`)
	b.click("#try button")
	b.until("whole answer", `document.getElementById("try-status").textContent.startsWith("Completed")`)
	if strings.Contains(eval[string](b, `document.getElementById("cmd-curl").textContent`), keyOf("acme")) {
		t.Error("the key is in the command")
	}
	b.click("input[value=video]")
	b.click("#try button")
	b.plays()
}

// TestTheCurlCommandWorks proves that the command shown works unchanged with shell metacharacters
// in the prompt.
func TestTheCurlCommandWorks(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip(err)
	}
	b := open(t, start(t).base)
	b.goTo("/console/try")
	for kind, want := range map[string]string{"chat": "data: [DONE]", "video": `"status":"queued"`} {
		b.click("input[value=" + kind + "]")
		eval[string](b, `document.getElementById("try-prompt").value = ""`)
		b.do(typed("#try-prompt", "It's \"a boat\" \\ for $HOME, `id`"))
		command := eval[string](b, `document.getElementById("cmd-curl").textContent`)
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(command, "curl", curl+" -sS", 1)).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v %s", command, err, out)
		}
	}
}

// TestTheGRPCCommandKnowsTLS proves that the command trusts the server's authority, and names a host
// that the browser has reached if the server listens on all addresses.
func TestTheGRPCCommandKnowsTLS(t *testing.T) {
	t.Parallel()
	w := start(t, withOperators, withTenants("acme"), func(c *config.Config) {
		c.GRPC.Addr = "0.0.0.0:0"
		c.GRPC.TLS.CertFile, c.GRPC.TLS.KeyFile = certtest.New(t, "ca").Issue("127.0.0.1")
	})
	b := open(t, w.base).login(opsKey)
	b.goTo("/console/try")
	b.until("command", `document.getElementById("cmd-grpcurl").textContent.startsWith("grpcurl")`)
	command := eval[string](b, `document.getElementById("cmd-grpcurl").textContent`)
	if !strings.HasPrefix(command, `grpcurl -cacert "$CA" -H "Authorization: Bearer $KEY" -d '`) || !strings.Contains(command, "' 127.0.0.1:") {
		t.Errorf("the command is %s", command)
	}
	b.shows("For TLS, the commands need CA,")
}
