package check

import "time"

// followers checks that a follower saw the versions in order, without a gap and as in the log, over
// all its connections. It also checks that a watch that ended showed the job's end.
func followers(f *facts, broken report) (looked int) {
	for _, w := range f.Followed {
		if !f.inlineAsked(w.Job) {
			looked++
			f.follower(w, broken)
		}
	}
	return looked
}

func (f *facts) follower(w Followed, broken report) {
	var last uint64
	jumped := false // the position to resume from was gone, so the next item is the current state
	for _, item := range w.Items {
		if item.Expired {
			jumped = true
		}
		if item.Version == 0 {
			continue
		}
		e, stored := f.event(w.Job, item.Version)
		switch {
		case !stored:
			broken(w.Job, "%s follower %s saw version %d, which is not in the log", w.Ingress, w.Client, item.Version)
		case item.ID != e.ID || item.Status != e.Status:
			broken(w.Job, "%s follower %s saw %s (%s), and the log has %s (%s)", w.Ingress, w.Client, item.ID, item.Status, e.ID, e.Status)
		case item.Version != last+1 && (!jumped || item.Version < last):
			broken(w.Job, "%s follower %s saw version %d after %d", w.Ingress, w.Client, item.Version, last)
		}
		last, jumped = item.Version, false
	}
	end, ended := f.end(w.Job)
	switch {
	case !w.Ended:
		if waited := w.FinishedAt.Sub(end.Time); ended && waited-f.held(end.Time, w.FinishedAt) > f.Config.Grace {
			broken(w.Job, "%s follower %s saw version %d last and was not shown the end for %s", w.Ingress, w.Client, last, waited.Round(time.Second))
		}
	case !ended || last != end.Version:
		broken(w.Job, "%s follower %s was let go after version %d, and the end is version %d", w.Ingress, w.Client, last, end.Version)
	case end.Status == "completed" && !isVideo(w.Job):
		f.followedBlocks(w, end, broken)
	}
}

// followedBlocks compares a follower's blocks with the reply. It skips a follower that received a
// gap, because that follower may have missed some blocks.
func (f *facts) followedBlocks(w Followed, end Event, broken report) {
	blocks, next := pieces{}, uint64(0)
	for _, item := range w.Items {
		if item.Gap || item.Expired {
			return
		}
		if item.Attempt != end.Attempt {
			continue
		}
		for i, block := range item.Blocks {
			if at := item.Index + uint64(i); at < next {
				broken(w.Job, "%s follower %s saw block %d of attempt %d again", w.Ingress, w.Client, at, end.Attempt)
				return
			}
			next = item.Index + uint64(i) + 1
			blocks[next-1] = block
		}
	}
	if text, count := blocks.text(); end.Stream && (text != end.Text || count < end.ChunkCount) {
		broken(w.Job, "%s follower %s saw %d of %d blocks and no gap: %s", w.Ingress, w.Client, count, end.ChunkCount, clip(text))
	}
}
