package console_test

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

var (
	screenshots = flag.String("screenshots", "", "directory where the pictures of docs/operator.md are written")
	gallery     = flag.String("gallery", "", "directory where a picture of every checked page is written, by test, width and colour scheme")
)

// maxPicture is the size limit of one picture in bytes.
const maxPicture = 80 << 10

// TestScreenshots writes the pictures of docs/operator.md if -screenshots is set.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("makes pictures; give -screenshots a directory")
	}
	if err := os.MkdirAll(*screenshots, 0o755); err != nil {
		t.Fatal(err)
	}
	d, b := startDemo(t)
	b.size(1280)
	for _, v := range d.views() {
		d.picture(b, v, "")
	}
	b.size(390)
	for _, v := range d.views() {
		if v.name == "overview" || v.name == "job" {
			d.picture(b, v, "-phone")
		}
	}
}

func (d *demo) picture(b *browser, v view, suffix string) {
	b.t.Helper()
	b.goTo(v.path)
	b.until(v.name, `document.body.innerHTML.includes("`+v.text+`")`)
	switch v.name {
	case "try":
		eval[string](b, `document.getElementById("try-key").value = "`+keyOf("acme")+`"`)
		b.click("#try button")
		b.until("whole answer", `document.getElementById("try-status").textContent.startsWith("Completed")`)
		eval[any](b, `scrollTo(0, 0)`)
	case "login", "count", "bodies":
	default:
		b.live()
	}
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		clip := &page.Viewport{Width: eval[float64](b, "innerWidth"), Height: eval[float64](b, `Math.min(innerHeight, document.body.offsetHeight)`), Scale: 1}
		shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: clip})
		if err != nil {
			b.t.Fatal(err)
		}
		small := paletted(b.t, shot.Data)
		name := v.name + suffix + "-" + scheme + ".png"
		if len(small) > maxPicture {
			b.t.Errorf("%s has %d bytes", name, len(small))
		}
		if err := os.WriteFile(filepath.Join(*screenshots, name), small, 0o644); err != nil {
			b.t.Fatal(err)
		}
	}
}

// hang writes a picture of the whole page into the gallery.
func (b *browser) hang(name, look string) {
	b.t.Helper()
	if *gallery == "" {
		return
	}
	const tallest = 4000
	clip := &page.Viewport{Width: eval[float64](b, "innerWidth"), Height: eval[float64](b, `Math.max(document.documentElement.scrollHeight, 300)`), Scale: 1}
	clip.Height = min(clip.Height, tallest)
	whole := true
	shot, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: clip, CaptureBeyondViewport: &whole})
	if err != nil {
		b.t.Fatal(err)
	}
	name = strings.TrimSpace(fmt.Sprintf("%.30s", strings.ReplaceAll(strings.TrimPrefix(name, "/console"), "/", " ")))
	file := filepath.Join(*gallery, b.t.Name(), cmp.Or(name, "overview")+look+".png")
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(file, shot.Data, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

// paletted reduces a picture to its 256 most frequent colours. Other pixels get the nearest of
// these.
func paletted(t *testing.T, data []byte) []byte {
	t.Helper()
	from, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	count, area := map[color.Color]int{}, from.Bounds()
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			count[from.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return cmp.Compare(count[b], count[a]) })
	palette := color.Palette(colours[:min(len(colours), 256)])
	index := map[color.Color]uint8{}
	for _, c := range colours {
		index[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(area, palette)
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			to.SetColorIndex(x, y, index[from.At(x, y)])
		}
	}
	var out bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, to); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
