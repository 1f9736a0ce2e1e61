package faultinject

import (
	"fmt"
	"math"
	"testing"
)

func TestDecideIsRepeatable(t *testing.T) {
	t.Parallel()
	mix := Evenly(0.5)
	again := Evenly(0.5)
	met := map[Fault]bool{}
	for _, op := range []Op{OpCreate, OpPoll, OpChat} {
		differs := false
		// The second mix is asked in reverse, because the order must not matter.
		for i := 999; i >= 0; i-- {
			key, n := fmt.Sprint("key", i/10), 1+i%10
			d := mix.Decide(7, op, key, n)
			if d != again.Decide(7, op, key, n) {
				t.Fatalf("%s %s %d: two answers", op, key, n)
			}
			differs = differs || d != mix.Decide(8, op, key, n)
			met[d.Fault] = true
		}
		if !differs {
			t.Errorf("%s: another seed decides alike", op)
		}
		for _, f := range FaultsOf(op) {
			if !met[f] {
				t.Errorf("%s never met %s in 1000 requests", op, f)
			}
		}
	}
}

func TestDecideKeepsTheChances(t *testing.T) {
	t.Parallel()
	mix := Mix{OpCreate: {ResetAccepted: 0.1, TooMany: 0.3}, OpPoll: {NotFound: 0.2, Latency: 0.1}}
	counts := map[Op]map[Fault]float64{OpCreate: {}, OpPoll: {}, OpChat: {}}
	const n = 20000
	for op := range counts {
		for i := range n {
			counts[op][mix.Decide(1, op, fmt.Sprint(i/20), 1+i%20).Fault]++
		}
	}
	for _, want := range []struct {
		op    Op
		fault Fault
		share float64
	}{
		{OpCreate, ResetAccepted, 0.1}, {OpCreate, TooMany, 0.3}, {OpCreate, None, 0.6},
		{OpPoll, NotFound, 0.2}, {OpPoll, Latency, 0.08}, // in the polls without an outage
		{OpChat, None, 1},
	} {
		if got := counts[want.op][want.fault] / n; math.Abs(got-want.share) > 0.02 {
			t.Errorf("%s met %q in %.3f of the requests, want %.2f", want.op, want.fault, got, want.share)
		}
	}
}

func TestOutagesLast(t *testing.T) {
	t.Parallel()
	mix := Mix{OpPoll: {NotFound: 0.5}}
	for start := 1; start < 100; start += outageLength {
		first := mix.Decide(3, OpPoll, "task", start).Fault
		for n := start; n < start+outageLength; n++ {
			if got := mix.Decide(3, OpPoll, "task", n).Fault; got != first {
				t.Errorf("poll %d met %q, poll %d %q", start, first, n, got)
			}
		}
	}
}

func TestMixValidate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		mix Mix
		ok  bool
	}{
		"nothing":         {nil, true},
		"everything":      {Evenly(1), true},
		"unknown op":      {Mix{"delete": {}}, false},
		"unknown fault":   {Mix{OpChat: {"earthquake": 0.1}}, false},
		"fault of others": {Mix{OpChat: {TaskLate: 0.1}}, false},
		"negative":        {Mix{OpChat: {Latency: -0.1}}, false},
		"no number":       {Mix{OpChat: {Latency: math.NaN()}}, false},
		"too much":        {Mix{OpChat: {Latency: 0.6, Drip: 0.6}}, false},
	} {
		if err := c.mix.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMarker(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"prompt":"a cat mark=v17_a-Z and more"}`: "v17_a-Z",
		`{"prompt":"mark=x1"}`:                     "x1",
		"--b\r\n\r\nmark=form7\r\n--b--":           "form7",
		`{"prompt":"no such word"}`:                "",
		`{"prompt":"mark="}`:                       "",
		``:                                         "",
	} {
		if got := Marker([]byte(body)); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}
