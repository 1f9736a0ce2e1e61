package main

import (
	"errors"
	"slices"
	"time"

	"github.com/genbus/genbus/internal/sandbox"
	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

// upstreams are the three test upstreams. strict and frail create a paid task for each accepted
// POST. honest returns the existing task for a repeated key.
type upstreams struct {
	frail, strict, honest *faultinject.Upstream
}

func (u *upstreams) all() []*faultinject.Upstream {
	return []*faultinject.Upstream{u.frail, u.strict, u.honest}
}

func startUpstreams(seed uint64) (*upstreams, error) {
	u := &upstreams{}
	var err error
	o := faultinject.UpstreamOptions{
		Seed: seed, Timing: faultinject.Timing{Late: late},
		Sandbox: sandbox.Options{VideoDuration: 2 * time.Second, ChunkInterval: 20 * time.Millisecond},
	}
	if u.honest, err = faultinject.NewUpstream(o); err != nil {
		return nil, err
	}
	o.Sandbox.RepeatCreates = true
	if u.strict, err = faultinject.NewUpstream(o); err != nil {
		return nil, errors.Join(err, u.honest.Close())
	}
	if u.frail, err = faultinject.NewUpstream(o); err != nil {
		return nil, errors.Join(err, u.strict.Close(), u.honest.Close())
	}
	return u, nil
}

func (u *upstreams) setMix(name string) (err error) {
	for _, up := range u.all() {
		err = errors.Join(err, up.SetMix(mixes[name]))
	}
	return err
}

func (u *upstreams) close() (err error) {
	for _, up := range u.all() {
		err = errors.Join(err, up.Close())
	}
	return err
}

// faults counts the faults of the upstreams, by "op/fault".
func (u *upstreams) faults() map[string]int {
	out := map[string]int{}
	for _, up := range u.all() {
		for name, n := range up.FaultCounts() {
			out[name] += n
		}
	}
	return out
}

func (u *upstreams) addTo(h *check.History) {
	for _, up := range u.all() {
		record := up.Record()
		for _, p := range record.Posts {
			h.Posts = append(h.Posts, post(p))
		}
		for _, t := range record.Tasks {
			h.Paid = append(h.Paid, check.Paid{ID: t.ID, Key: t.Key, Marker: t.Marker, Time: t.Time})
		}
	}
	slices.SortStableFunc(h.Posts, func(a, b check.Post) int { return a.Time.Compare(b.Time) })
}

// good are faults with a usable answer.
var good = []faultinject.Fault{
	faultinject.None, faultinject.Latency, faultinject.Drip, faultinject.TaskNeverEnds, faultinject.TaskLate, faultinject.TaskBackwards, faultinject.TaskFails,
	faultinject.TaskResultLate, faultinject.TaskRefused, faultinject.NestedID, faultinject.OddEvents,
}

// post converts a POST for the checker. Only a usable answer counts as answered.
func post(p faultinject.Post) check.Post {
	spoiled := !slices.Contains(good, p.Fault)
	return check.Post{
		Time: p.Time, Ended: p.Ended, Replica: p.Client, Video: p.Op == faultinject.OpCreate, Path: p.Path, Key: p.Key, Marker: p.Marker, Bodiless: p.Bodiless,
		Fault: string(p.Fault), Status: p.Status, TaskID: p.TaskID, Accepted: p.Accepted, Text: p.Text, Input: p.Input,
		Answered: p.Answered && p.Status/100 == 2 && !spoiled, Spoiled: spoiled,
	}
}
