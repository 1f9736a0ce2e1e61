package natsacl_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attack is one row: what an attacker tries, and what they see. That nothing changed,
// nothing reached a subject of others, and nothing of the victim was learned, is
// checked for every row.
type attack struct {
	as   string
	name string
	move move
	want string
}

// TestAttacks is the list of what users of NATS cannot do.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for group, rows := range map[string][]attack{
		"forge": forging(), "headers": headers(), "answers": answers(), "read": reading(), "break": breaking(),
		"steal": stealing(), "impersonate": impersonating(), "whole account": wholeAccount(), "service": service(),
	} {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			s := newStage(t)
			before, glance := s.snapshot(), s.glance()
			s.trespasses()
			for _, row := range rows {
				t.Run(row.as+" "+row.name, func(t *testing.T) {
					a := &attempt{stage: s, t: t, nc: s.connect(t, row.as), wait: waitFor(row.want)}
					if seen := row.move(a); seen != row.want && row.want != anything {
						t.Errorf("the attacker saw %q, not %q", seen, row.want)
					}
					a.nc.Close()
					a.harmless(glance, row)
				})
			}
			if diff := cmp.Diff(before, s.snapshot()); diff != "" {
				t.Errorf("one of these changed something (-before +after):\n%s", diff)
			}
		})
	}
}

// harmless checks what an attack has done.
func (a *attempt) harmless(before map[string]string, row attack) {
	a.t.Helper()
	if found := a.trespasses(); len(found) > 0 {
		a.t.Errorf("it reached %v", found)
	}
	if diff := cmp.Diff(before, a.glance()); diff != "" {
		a.t.Errorf("it changed something (-before +after):\n%s", diff)
	}
	for _, word := range []string{secret, job} {
		if strings.Contains(a.gained.String(), word) && !strings.Contains(row.name, word) {
			a.t.Errorf("the attacker learned: %s", a.gained.String())
		}
	}
}
