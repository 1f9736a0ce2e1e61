package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// scenario is a pattern of chat requests.
type scenario struct {
	Name     string        `json:"name"`
	Callers  int           `json:"callers"`
	Requests int           `json:"requests"` // in one round, over all callers
	Chunks   int           `json:"chunks"`   // in each reply; 0 for JSON
	Interval time.Duration `json:"-"`        // in the name
}

// units returns the divisor for CPU: chunks, or requests for JSON.
func (s scenario) units() float64 { return float64(s.Requests * max(s.Chunks, 1)) }

// body returns the request body, which is the same for every call of a scenario.
func (s scenario) body() string {
	question := strings.Repeat("What does a reverse proxy cost, and where does the time go? ", 12)
	return fmt.Sprintf(`{"model":%q,"stream":%t,"temperature":0.7,"messages":[{"role":"system","content":"You are brief."},{"role":"user","content":%q}]}`,
		chatModel(s.Chunks, s.Interval), s.Chunks > 0, question)
}

// timings are the sorted durations of one round.
type timings struct {
	first []float64 // seconds from the request to the complete reply, or to the first chunk
	delay []float64 // seconds from the upstream's write of a chunk to its arrival
}

const callTimeout = 2 * time.Minute

func (s scenario) load(ctx context.Context, client *http.Client, baseURL string) (timings, error) {
	group, ctx := errgroup.WithContext(ctx)
	parts := make([]timings, s.Callers)
	body := s.body()
	for i := range parts {
		group.Go(func() error {
			for n := i; n < s.Requests; n += s.Callers {
				if err := s.call(ctx, client, baseURL, body, &parts[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return timings{}, fmt.Errorf("%s: %w", s.Name, err)
	}
	var all timings
	for _, p := range parts {
		all.first, all.delay = append(all.first, p.first...), append(all.delay, p.delay...)
	}
	slices.Sort(all.first)
	slices.Sort(all.delay)
	return all, nil
}

// call makes one request and reads its reply to the end.
func (s scenario) call(ctx context.Context, client *http.Client, baseURL, body string, t *timings) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, baseURL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	begin := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 512)) // only for the error message
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	if s.Chunks > 0 {
		return s.readStream(resp.Body, begin, t)
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil && n < int64(len(wholeReply)) {
		err = fmt.Errorf("a reply of %d bytes, want %d", n, len(wholeReply))
	}
	t.first = append(t.first, time.Since(begin).Seconds())
	return err
}

var (
	dataPrefix    = []byte("data: ")
	contentPrefix = []byte(`"content":"`)
	doneData      = []byte("[DONE]")
)

// readStream records the time of every chunk. A missing chunk or end is an error.
func (s scenario) readStream(body io.Reader, begin time.Time, t *timings) error {
	r := bufio.NewReaderSize(body, 16<<10)
	chunks := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("the stream ended after %d of %d chunks: %w", chunks, s.Chunks, err)
		}
		data, isData := bytes.CutPrefix(line, dataPrefix)
		if !isData {
			continue
		}
		if bytes.HasPrefix(data, doneData) {
			break
		}
		sent, ok := writtenAt(data)
		if !ok {
			continue // the chunk with finish_reason
		}
		now := time.Now()
		if chunks == 0 {
			t.first = append(t.first, now.Sub(begin).Seconds())
		}
		chunks++
		t.delay = append(t.delay, float64(now.UnixNano()-sent)/1e9)
	}
	if chunks != s.Chunks {
		return fmt.Errorf("a stream of %d chunks, want %d", chunks, s.Chunks)
	}
	// Read to the end, so that the connection is reused.
	if _, err := io.Copy(io.Discard, r); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

// writtenAt returns the time that the upstream wrote into a chunk's content.
func writtenAt(data []byte) (int64, bool) {
	_, rest, ok := bytes.Cut(data, contentPrefix)
	if !ok {
		return 0, false
	}
	end := bytes.IndexByte(rest, '"')
	if end < 0 {
		return 0, false
	}
	n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	return n, err == nil
}
