package check

// readable reports the messages that could not be decoded.
func readable(f *facts, broken report) (looked int) {
	for _, why := range f.Unreadable {
		broken("", "%s", why)
	}
	return len(f.Events) + len(f.FeedCopies) + len(f.DeadLetters) + len(f.Chunks) + len(f.Unreadable)
}

// oneEnd checks that every accepted job has a log and that no job has two ends. The rule deadline
// covers jobs without an end.
func oneEnd(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.accepted) {
		if t := f.accepted[id]; len(f.logs[id]) == 0 {
			broken(id, "accepted at %s (%s), and has no event", clock(t.Time), t.Ingress)
		}
	}
	for _, id := range sortedBy(f.logs) {
		looked++
		ends := 0
		for _, e := range f.logs[id] {
			if e.terminal() {
				ends++
			}
		}
		if ends > 1 {
			broken(id, "%d terminal events", ends)
		}
	}
	return looked
}

func versions(f *facts, broken report) (looked int) {
	for id, log := range f.queued {
		for i, e := range log {
			looked++
			if e.Version != uint64(i+1) {
				broken(id, "the event at place %d (sequence %d) has version %d", i+1, e.Seq, e.Version)
				break
			}
		}
	}
	return looked
}

func statusForward(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.logs) {
		before := Event{}
		for _, e := range f.logs[id] {
			looked++
			switch {
			case rank(e.Status) < 0:
				broken(id, "version %d has status %q", e.Version, e.Status)
			case rank(e.Status) < rank(before.Status):
				broken(id, "version %d says %s after %s", e.Version, e.Status, before.Status)
			case before.Version != 0 && e.Version == before.Version+1 && e.Previous != before.Status:
				broken(id, "version %d says that %s was before, and it was %s", e.Version, e.Previous, before.Status)
			}
			before = e
		}
	}
	return looked
}

func terminalStays(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.logs) {
		log := f.logs[id]
		for i, e := range log {
			if !e.terminal() {
				continue
			}
			looked++
			if i < len(log)-1 {
				broken(id, "version %d (%s) follows version %d (%s)", log[i+1].Version, log[i+1].Status, e.Version, e.Status)
				break
			}
		}
	}
	return looked
}

// feedCopies checks the feed. The feed copy of an inline chat may be missing, like any of its
// events.
func feedCopies(f *facts, broken report) (looked int) {
	for id := range f.queued {
		if end, ended := f.end(id); ended && len(f.feedCopies[id]) != 1 {
			broken(id, "its terminal event %s has %d feed copies", end.ID, len(f.feedCopies[id]))
		}
	}
	for _, id := range sortedBy(f.feedCopies) {
		end, ended := f.end(id)
		for _, feedCopy := range f.feedCopies[id] {
			looked++
			switch {
			case !ended:
				broken(id, "the feed has %s, and the log has no terminal event", feedCopy.ID)
			case feedCopy.ID != end.ID:
				broken(id, "the feed has %s, and the log %s", feedCopy.ID, end.ID)
			case feedCopy.Sum != end.Sum:
				broken(id, "the feed's copy of %s has other bytes", feedCopy.ID)
			}
		}
	}
	return looked
}

// oneWriter checks that only one event begins each attempt. Two events would mean that two handlers
// both believed that they held the job.
func oneWriter(f *facts, broken report) (looked int) {
	for _, id := range sortedBy(f.logs) {
		begun, before := map[uint32]Event{}, Event{}
		for _, e := range f.logs[id] {
			begins := e.begins(before)
			if before = e; !begins {
				continue
			}
			looked++
			if first, twice := begun[e.Attempt]; twice {
				broken(id, "attempt %d is begun by version %d (%s) and by version %d (%s)", e.Attempt, first.Version, first.Writer, e.Version, e.Writer)
				continue
			}
			begun[e.Attempt] = e
		}
	}
	return looked
}

// begins reports whether an event precedes a call to the upstream. before is the job's previous
// event. A chat that was delivered often has further events within an attempt.
func (e Event) begins(before Event) bool {
	return e.Phase == "submitting" || !isVideo(e.Job) && e.Phase == "in_progress" && e.Attempt > before.Attempt
}
