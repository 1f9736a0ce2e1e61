package bulk

import "time"

// Silent is how long a replica that hurries may be silent: longer than a busy machine keeps one from
// saying that it lives.
const Silent = 3 * time.Second

// Hurry makes a Runner that has not started wait for less.
func (r *Runner) Hurry() {
	r.t = timing{check: 30 * time.Millisecond, store: 50 * time.Millisecond, longest: 200 * time.Millisecond, watch: 30 * time.Millisecond, silent: Silent, retry: 10 * time.Millisecond, tries: 3, step: 10 * time.Second}
}

// Trust makes a Runner take no silent replica for dead.
func (r *Runner) Trust() { r.t.silent = time.Hour }

// Die has a Runner store nothing and begin nothing more, as if its process was killed.
func (r *Runner) Die() { r.cut() }
