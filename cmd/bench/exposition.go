package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is one line of /metrics.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// metrics is one scrape.
type metrics []sample

const (
	maxScrape     = 16 << 20
	scrapeTimeout = 15 * time.Second
)

// scrape reads baseURL/metrics.
func scrape(ctx context.Context, client *http.Client, baseURL string) (metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, baseURL+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics: status %d", resp.StatusCode)
	}
	return parseExposition(io.LimitReader(resp.Body, maxScrape))
}

// parseExposition reads the Prometheus text format, without timestamps.
func parseExposition(r io.Reader) (metrics, error) {
	var out metrics
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), 1<<20)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		s, err := parseSample(line)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, lines.Err()
}

func parseSample(line string) (sample, error) {
	bad := func() (sample, error) { return sample{}, fmt.Errorf("metrics: unreadable line %q", line) }
	at := strings.IndexAny(line, "{ ")
	if at <= 0 {
		return bad()
	}
	s, rest := sample{name: line[:at]}, line[at:]
	if rest[0] == '{' {
		var ok bool
		if s.labels, rest, ok = parseLabels(rest[1:]); !ok {
			return bad()
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return bad()
	}
	var err error
	if s.value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return bad()
	}
	return s, nil
}

// parseLabels reads `a="b",c="d"}` and gives what follows it.
func parseLabels(text string) (labels map[string]string, rest string, ok bool) {
	labels = map[string]string{}
	for {
		text = strings.TrimLeft(text, ", ")
		if after, end := strings.CutPrefix(text, "}"); end {
			return labels, after, true
		}
		name, quoted, found := strings.Cut(text, "=")
		if !found {
			return nil, "", false
		}
		prefix, err := strconv.QuotedPrefix(quoted)
		if err != nil {
			return nil, "", false
		}
		value, err := strconv.Unquote(prefix)
		if err != nil {
			return nil, "", false
		}
		labels[name], text = value, quoted[len(prefix):]
	}
}

// sum adds the samples of a name that have all the labels, given as name,
// value, name, value.
func (m metrics) sum(name string, labels ...string) float64 {
	total := 0.0
	for _, s := range m {
		if s.name == name && s.has(labels) {
			total += s.value
		}
	}
	return total
}

func (s sample) has(labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		if s.labels[labels[i]] != labels[i+1] {
			return false
		}
	}
	return true
}

// bucket counts the observations up to a bound, in a Prometheus histogram.
type bucket struct {
	upTo  float64
	count float64 // cumulative
}

// histogram has ascending bounds; the last one is +Inf.
type histogram []bucket

// histogram reads one, added up over the labels that are not given.
func (m metrics) histogram(name string, labels ...string) (histogram, error) {
	counts := map[float64]float64{}
	for _, s := range m {
		if s.name != name+"_bucket" || !s.has(labels) {
			continue
		}
		bound, err := strconv.ParseFloat(s.labels["le"], 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %s has a bucket %q", name, s.labels["le"])
		}
		counts[bound] += s.value
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("metrics: there is no histogram %s", name)
	}
	h := make(histogram, 0, len(counts))
	for bound, n := range counts {
		h = append(h, bucket{bound, n})
	}
	slices.SortFunc(h, func(a, b bucket) int { return cmp.Compare(a.upTo, b.upTo) })
	return h, nil
}

// since is what was observed between an earlier scrape and this one.
func (h histogram) since(before histogram) (histogram, error) {
	if len(before) != len(h) {
		return nil, errors.New("metrics: the histogram changed its buckets")
	}
	out := slices.Clone(h)
	for i := range out {
		out[i].count -= before[i].count
	}
	return out, nil
}

func (h histogram) total() float64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].count
}

// quantile interpolates within the bucket that holds the q-th observation, as
// Prometheus does; the bucket is returned too, because the true value may lie
// anywhere in it. Beyond the last finite bound the value is that bound. Without
// observations everything is NaN.
func (h histogram) quantile(q float64) (value, low, high float64) {
	total := h.total()
	if total <= 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	rank, before := q*total, 0.0
	for _, b := range h {
		if b.count >= rank && b.count > before {
			if math.IsInf(b.upTo, 1) {
				return low, low, b.upTo
			}
			return low + (b.upTo-low)*(rank-before)/(b.count-before), low, b.upTo
		}
		low, before = b.upTo, b.count
	}
	return low, low, math.Inf(1)
}

// below is the share of observations up to a bound of the histogram, NaN when
// there are none or when it has no such bound.
func (h histogram) below(bound float64) float64 {
	for _, b := range h {
		if b.upTo == bound && h.total() > 0 {
			return b.count / h.total()
		}
	}
	return math.NaN()
}
