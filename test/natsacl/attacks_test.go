package natsacl_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// attack is one attempt and the outcome that the attacker must see. For each row the test also
// checks that nothing changed, that nothing reached a foreign subject, and that the attacker
// learned nothing of the victim.
type attack struct {
	as   string
	name string
	move move
	want string
}

// TestAttacks proves that NATS users cannot exceed their permissions.
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

// harmless fails if an attack changed, reached or revealed anything.
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
