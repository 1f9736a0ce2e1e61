package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

type metrics model.Vector

const (
	maxScrape     = 16 << 20
	scrapeTimeout = 15 * time.Second
)

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

// parseExposition parses the Prometheus text format.
func parseExposition(r io.Reader) (metrics, error) {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, slices.Collect(maps.Values(families))...)
	return metrics(samples), err
}

// find returns the samples with a name and the given labels. labels alternates between names and
// values.
func (m metrics) find(name string, labels []string) (found metrics) {
	labels = append(labels, model.MetricNameLabel, name)
	for _, s := range m {
		has := true
		for i := 0; i+1 < len(labels); i += 2 {
			has = has && s.Metric[model.LabelName(labels[i])] == model.LabelValue(labels[i+1])
		}
		if has {
			found = append(found, s)
		}
	}
	return found
}

// sum adds the samples that find returns.
func (m metrics) sum(name string, labels ...string) float64 {
	total := 0.0
	for _, s := range m.find(name, labels) {
		total += float64(s.Value)
	}
	return total
}

// bucket is a bucket of a Prometheus histogram. It counts the observations up to a bound.
type bucket struct {
	upTo  float64
	count float64 // cumulative
}

// histogram is a list of buckets with ascending bounds. The last bound is +Inf.
type histogram []bucket

// histogram returns a histogram, summed over the labels that are not given.
func (m metrics) histogram(name string, labels ...string) (histogram, error) {
	counts := map[float64]float64{}
	for _, s := range m.find(name+"_bucket", labels) {
		bound, err := strconv.ParseFloat(string(s.Metric[model.BucketLabel]), 64)
		if err != nil {
			return nil, fmt.Errorf("metrics: %s: %w", name, err)
		}
		counts[bound] += float64(s.Value)
	}
	if len(counts) == 0 {
		return nil, fmt.Errorf("metrics: no histogram %s", name)
	}
	h := make(histogram, 0, len(counts))
	for bound, n := range counts {
		h = append(h, bucket{bound, n})
	}
	slices.SortFunc(h, func(a, b bucket) int { return cmp.Compare(a.upTo, b.upTo) })
	return h, nil
}

// since returns the observations between an earlier scrape and this one.
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

// quantile interpolates within the bucket of the q-th observation, like Prometheus. low and high
// are the bounds of that bucket, which contains the true value. Above the last finite bound,
// quantile returns that bound. Without observations, it returns NaN.
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

// below returns the share of observations up to a bound of the histogram. It returns NaN if there
// are no observations or no such bound.
func (h histogram) below(bound float64) float64 {
	for _, b := range h {
		if b.upTo == bound && h.total() > 0 {
			return b.count / h.total()
		}
	}
	return math.NaN()
}
