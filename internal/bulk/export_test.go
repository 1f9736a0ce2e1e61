package bulk

import "time"

// Hurry makes a Runner that has not started wait for less.
func (r *Runner) Hurry() {
	r.t = timing{check: 30 * time.Millisecond, store: 50 * time.Millisecond, longest: 200 * time.Millisecond, watch: 30 * time.Millisecond, silent: 500 * time.Millisecond, retry: 10 * time.Millisecond, tries: 3, step: 10 * time.Second}
}

// Trust makes a Runner take no silent replica for dead.
func (r *Runner) Trust() { r.t.silent = time.Hour }

// Die has a Runner store nothing and begin nothing more, as if its process was killed.
func (r *Runner) Die() { r.cut() }
