package main

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/genbus/genbus/test/hostile"
)

// firstWindow is the initial window of HTTP/2, and frameSize the largest frame.
const firstWindow, frameSize = 65_535, 16 << 10

// h2Client is an HTTP/2 client that respects flow control but leaves calls unfinished.
type h2Client struct {
	conn net.Conn
	mu   sync.Mutex
	more *sync.Cond
	// windows is the send window of the connection (0) and of each stream.
	windows map[uint32]int64
	initial int64
	ended   error
	refused int // streams ended by the server
}

func dialH2(t *testing.T, address string) *h2Client {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	h := &h2Client{conn: conn, windows: map[uint32]int64{0: firstWindow}, initial: firstWindow}
	h.more = sync.NewCond(&h.mu)
	read := make(chan struct{})
	t.Cleanup(func() {
		_ = conn.Close()
		<-read
	})
	if _, err := conn.Write(hostile.Frame([]byte(hostile.Preface), hostile.FrameSettings, 0, 0, nil)); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(read)
		h.read()
	}()
	return h
}

// read processes frames until the server closes the connection.
func (h *h2Client) read() {
	for {
		var head [9]byte
		_, err := io.ReadFull(h.conn, head[:])
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		if err == nil {
			_, err = io.ReadFull(h.conn, payload)
		}
		h.mu.Lock()
		if err != nil {
			h.ended = err
			h.more.Broadcast()
			h.mu.Unlock()
			return
		}
		h.take(head[3], head[4], binary.BigEndian.Uint32(head[5:]), payload)
		h.more.Broadcast()
		h.mu.Unlock()
	}
}

// take processes a frame. The caller holds mu.
func (h *h2Client) take(kind, flags byte, stream uint32, payload []byte) {
	switch {
	case kind == hostile.FrameSettings && flags&hostile.FlagEnd == 0:
		for ; len(payload) >= 6; payload = payload[6:] {
			if binary.BigEndian.Uint16(payload) == 4 { // SETTINGS_INITIAL_WINDOW_SIZE
				h.resize(int64(binary.BigEndian.Uint32(payload[2:])))
			}
		}
		_, _ = h.conn.Write(hostile.Frame(nil, hostile.FrameSettings, hostile.FlagEnd, 0, nil)) // read reports an error
	case kind == hostile.FramePing && flags&hostile.FlagEnd == 0:
		_, _ = h.conn.Write(hostile.Frame(nil, hostile.FramePing, hostile.FlagEnd, 0, payload)) // read reports an error
	case kind == hostile.FrameWindow:
		h.windows[stream] += int64(binary.BigEndian.Uint32(payload))
	case kind == hostile.FrameReset, kind == hostile.FrameHeaders && flags&hostile.FlagEnd != 0:
		h.refused++
		delete(h.windows, stream)
	}
}

func (h *h2Client) resize(initial int64) {
	for stream := range h.windows {
		if stream != 0 {
			h.windows[stream] += initial - h.initial
		}
	}
	h.initial = initial
}

// open starts a call without ending it.
func (h *h2Client) open(stream uint32, method, authorization string, fields ...string) error {
	h.mu.Lock()
	h.windows[stream] = h.initial
	h.mu.Unlock()
	block := hostile.CallHeader(nil, method, authorization, fields...)
	kind := hostile.FrameHeaders
	for len(block) > frameSize {
		if _, err := h.conn.Write(hostile.Frame(nil, kind, 0, stream, block[:frameSize])); err != nil {
			return err
		}
		block, kind = block[frameSize:], hostile.FrameContinuation
	}
	_, err := h.conn.Write(hostile.Frame(nil, kind, hostile.FlagEndHeaders, stream, block))
	return err
}

var errRefused = errors.New("the server has ended the call")

// send sends data of a call within its flow control window.
func (h *h2Client) send(stream uint32, data []byte) error {
	for len(data) > 0 {
		n, err := h.reserve(stream, len(data))
		if err != nil {
			return err
		}
		if _, err := h.conn.Write(hostile.Frame(nil, hostile.FrameData, 0, stream, data[:n])); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// reserve waits for window capacity and returns how many bytes may be sent.
func (h *h2Client) reserve(stream uint32, want int) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		room, open := h.windows[stream]
		switch n := min(int64(want), frameSize, room, h.windows[0]); {
		case h.ended != nil:
			return 0, h.ended
		case !open:
			return 0, errRefused
		case n > 0:
			h.windows[stream] -= n
			h.windows[0] -= n
			return int(n), nil
		}
		h.more.Wait()
	}
}

// refusals returns how many calls the server has ended, or -1 if it has closed the connection.
func (h *h2Client) refusals() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return -1
	}
	return h.refused
}
