package sse

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/genbus/genbus/internal/upstream/chat/chattest"
)

func TestAppend(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		event Event
		want  string
	}{
		"data":        {Event{Data: []byte("a")}, "data: a\n\n"},
		"empty":       {Event{}, "data: \n\n"},
		"all":         {Event{Type: "error", ID: []byte("7"), Data: []byte("a")}, "id: 7\nevent: error\ndata: a\n\n"},
		"line breaks": {Event{Type: "er\nror", ID: []byte("7\r\n\x008"), Data: []byte("a\nb\r\nc\rd\n")}, "id: 78\nevent: error\ndata: a\ndata: b\ndata: c\ndata: d\ndata: \n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, string(Append(nil, tc.event))); diff != "" {
				t.Error(diff)
			}
		})
	}
	if text := string(AppendComment([]byte("x\n"), "ping\ndata: no")); text != "x\n: ping\n: data: no\n" {
		t.Errorf("comment %q", text)
	}
}

func FuzzAppend(f *testing.F) {
	f.Add("message", "1", "a\nb")
	f.Add("", "", "")
	f.Add("e\rr", "\x00", " x\r\n\r\n")
	for _, a := range chattest.Seeds(f, "../chat/testdata") {
		for _, block := range a.Want.Blocks {
			f.Add("message", "1", block)
		}
	}
	f.Fuzz(func(t *testing.T, eventType, id, data string) {
		clean := strings.NewReplacer("\r", "", "\n", "", "\x00", "")
		lines := strings.NewReplacer("\r\n", "\n", "\r", "\n")
		want := got{clean.Replace(eventType), clean.Replace(id), lines.Replace(data), false}
		e := Event{Type: eventType, ID: []byte(id), Data: []byte(data)}
		all, err := readAll(bytes.NewReader(Append(nil, e)), 1<<20)
		if err != io.EOF {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]got{want}, all); diff != "" {
			t.Error(diff)
		}
	})
}

func BenchmarkAppendData(b *testing.B) {
	block := bytes.TrimPrefix(bytes.TrimSpace(usualBlock()), []byte("data: "))
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendData(dst[:0], block)
	}
}
