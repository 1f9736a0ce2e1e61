package faultinject

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// Weights holds the probabilities of faults, each from 0 to 1. The remaining probability is that of
// no fault.
type Weights map[Fault]float64

// Mix holds the probabilities of faults for each kind of request. A nil Mix has no faults. In JSON,
// a Mix looks like {"create":{"429":0.1}}.
type Mix map[Op]Weights

// Evenly returns a mix of all faults, with equal probabilities within an op. share is the
// probability that a request has any fault.
func Evenly(share float64) Mix {
	m := Mix{}
	for op, faults := range opFaults {
		m[op] = Weights{}
		for _, f := range faults {
			m[op][f] = share / float64(len(faults))
		}
	}
	return m
}

// Validate returns an error for unknown ops, faults that do not apply to the op, and probabilities
// or sums that are not between 0 and 1.
func (m Mix) Validate() error {
	for op, weights := range m {
		sum := 0.0
		for fault, w := range weights {
			if !slices.Contains(opFaults[op], fault) {
				return fmt.Errorf("faults: %q cannot meet %q; see FaultsOf", op, fault)
			}
			if !(w >= 0 && w <= 1) {
				return fmt.Errorf("faults: the chance of %q for %q is %v, want 0 to 1", fault, op, w)
			}
			sum += w
		}
		if _, known := opFaults[op]; !known || sum > 1+1e-9 {
			return fmt.Errorf("faults: the chances for %q are %v together, want at most 1 and one of create, poll, chat", op, sum)
		}
	}
	return nil
}

func (m Mix) clone() Mix {
	out := Mix{}
	for op, weights := range m {
		out[op] = maps.Clone(weights)
	}
	return out
}

// Decision is the fault of one request.
type Decision struct {
	// Fault is None for a request without a fault.
	Fault Fault
	// Part is the degree of the fault, from 0 to 1. It determines how late the answer is, how far
	// into it the fault occurs, or which variant is used.
	Part float64
}

// Decide returns the fault of the n-th request of key, counted from 1. The result depends only on
// the arguments.
func (m Mix) Decide(seed uint64, op Op, key string, n int) Decision {
	if op == OpPoll {
		window := (n - 1) / outageLength
		if d := m.draw(outages, seed, op, key+" outage", window); d.Fault != None {
			// Vary the garbage within the window.
			d.Part = generator(seed, op, key+" kind", n).Float64()
			return d
		}
		return m.draw(answerFaults, seed, op, key, n)
	}
	return m.draw(opFaults[op], seed, op, key, n)
}

// draw picks one of faults, or None.
func (m Mix) draw(faults []Fault, seed uint64, op Op, key string, n int) Decision {
	r := generator(seed, op, key, n)
	at := r.Float64()
	part := r.Float64()
	for _, f := range faults {
		if at -= m[op][f]; at < 0 {
			return Decision{Fault: f, Part: part}
		}
	}
	return Decision{}
}

func generator(seed uint64, op Op, key string, n int) *rand.Rand {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d %s", seed, op, n, key))
	return rand.New(rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])))
}
