package console_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience bounds one wait for page content.
const patience = time.Minute

// chromium returns the path of the browser, or why it is missing.
var chromium = sync.OnceValues(func() (string, error) {
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	if path := os.Getenv("CHROMIUM"); path != "" {
		names = []string{path}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("needs a Chromium, and there is no %s (README.md says how to get one)", strings.Join(names, ", "))
})

// running is the browser process that all tests share. Each test has its own browser context and
// cookies. TestMain stops it.
var running struct {
	sync.Mutex
	ctx  context.Context
	stop func()
}

// startChromium starts the browser on first use. It skips the test without a Chromium.
func startChromium(t *testing.T) context.Context {
	t.Helper()
	path, err := chromium()
	if err != nil {
		t.Skip(err)
	}
	running.Lock()
	defer running.Unlock()
	if running.ctx != nil {
		return running.ctx
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		cancel()
		endAllocator()
		t.Fatalf("%s does not start: %v", path, err)
	}
	running.ctx, running.stop = ctx, func() { cancel(); endAllocator() }
	return ctx
}

// browser is a window with its own session. Exceptions, console errors, dialogs and violations of
// the Content Security Policy fail the test.
type browser struct {
	t    *testing.T
	ctx  context.Context
	base string // URL of the service

	faults chan string
}

func open(t *testing.T, base string) *browser {
	t.Helper()
	ctx, cancel := chromedp.NewContext(startChromium(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	b := &browser{t: t, ctx: ctx, base: base, faults: make(chan string, 100)}
	if err := chromedp.Listen(ctx, b.handleEvent); err != nil {
		t.Fatal(err)
	}
	b.size(1280)
	t.Cleanup(func() {
		for len(b.faults) > 0 {
			t.Errorf("the browser reports: %s", <-b.faults)
		}
	})
	return b
}

// handleEvent records faults that the browser reports. It must not block.
func (b *browser) handleEvent(ev any) {
	fault := ""
	switch e := ev.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			fault += " " + e.ExceptionDetails.Exception.Description
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			fault = "console: " + string(e.Type)
			for _, a := range e.Args {
				fault += " " + string(a.Value)
			}
		}
	case *log.EventEntryAdded:
		// Some tests provoke 4xx responses. Verbose entries are advice.
		if e.Entry.Level != log.EntryLevelVerbose && (e.Entry.Source != log.EntrySourceNetwork || strings.Contains(e.Entry.Text, "status of 5")) {
			fault = fmt.Sprintf("%s %s: %s", e.Entry.Source, e.Entry.Level, e.Entry.Text)
		}
	case *page.EventJavascriptDialogOpening:
		fault = "dialog: " + e.Message
		go func() {
			_, _ = chromedp.Call(b.ctx, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{})
		}()
	}
	if fault == "" {
		return
	}
	select {
	case b.faults <- fault:
	default: // the recorded faults are enough to fail the test
	}
}

func (b *browser) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		b.t.Fatalf("%v; %s", err, b.shown())
	}
}

func (b *browser) goTo(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

// leads runs actions that open another page, and waits for that page.
func (b *browser) leads(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if _, err := chromedp.RunResponse(ctx, actions...); err != nil {
		b.t.Fatalf("%v; %s", err, b.shown())
	}
}

func (b *browser) click(selector string) {
	b.t.Helper()
	b.do(chromedp.Click(chromedp.CSS(selector), chromedp.NodeVisible))
}

func (b *browser) press(keys string) {
	b.t.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// slash presses "/" without a separate char event, as a keyboard does. A char event would type the
// character into the field that gets the focus.
func (b *browser) slash() {
	b.t.Helper()
	for _, p := range []input.DispatchKeyEventParams{{Type: input.DispatchKeyEventTypeKeyDown, Key: "/", Text: "/"}, {Type: input.DispatchKeyEventTypeKeyUp, Key: "/"}} {
		if _, err := chromedp.Call(b.ctx, input.DispatchKeyEvent, p); err != nil {
			b.t.Fatal(err)
		}
	}
}

// eval returns the value of a JavaScript expression. It awaits promises.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits for a JavaScript expression to be true, on this page or the next one. chromedp's Poll
// would compile a string into a function, which the pages' Content Security Policy forbids.
func (b *browser) until(what, expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	script := `new Promise((done) => {
		const look = () => { try { if (` + expression + `) { clearInterval(timer); done(true); } } catch {} };
		const timer = setInterval(look, 30);
		look();
	})`
	for {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script, chromedp.EvalAwaitPromise))
		if err == nil {
			return
		}
		// The page may have been replaced during the wait. Ask the next one.
		if _, gone := errors.AsType[*cdproto.Error](err); !gone || ctx.Err() != nil {
			b.t.Fatalf("no %s: %v; %s", what, err, b.shown())
		}
	}
}

// shows waits for text in the main part of the page.
func (b *browser) shows(text string) {
	b.t.Helper()
	b.until("text "+text, "document.querySelector('main').innerText.includes("+strconv.Quote(text)+")")
}

// live waits until the page receives updates, and marks the document so that sameDocument can
// detect a reload.
func (b *browser) live() {
	b.t.Helper()
	b.until("live page", `document.getElementById("live").textContent === "live"`)
	eval[bool](b, `window.sameDocument = true`)
}

// sameDocument fails if the page was reloaded since live.
func (b *browser) sameDocument() {
	b.t.Helper()
	if !eval[bool](b, `window.sameDocument === true`) {
		b.t.Error("the page was loaded once more")
	}
}

// shown describes the current page, for failure messages.
func (b *browser) shown() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body?.innerText`))
	if err != nil {
		return "the page cannot be read: " + err.Error()
	}
	return fmt.Sprintf("the page is %.1500s", text)
}

func (b *browser) size(width int64) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, 900))
}

func (b *browser) scheme(name string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *browser) login(key string) *browser {
	b.t.Helper()
	b.goTo("/console/login")
	b.do(typed("#key", key))
	b.leads(chromedp.Click(chromedp.CSS("main button")))
	b.until("menu", `document.querySelector("nav[aria-label]")`)
	return b
}

func typed(selector, text string) chromedp.Action[chromedp.Void] {
	return chromedp.SendKeys(chromedp.CSS(selector), text)
}
