package check

import (
	"slices"

	"github.com/genbus/genbus/internal/errcode"
)

// objects checks the objects that stored messages name. An object is written before the message
// that names it and kept for as long.
func objects(f *facts, broken report) (looked int) {
	look := func(job, what string, o *Object) {
		if o == nil {
			return
		}
		looked++
		if o.Lost != "" {
			broken(job, "%s names %s in %s: %s", what, o.Name, o.Bucket, o.Lost)
		}
	}
	for _, id := range sortedBy(f.logs) {
		end, _ := f.end(id)
		look(id, "its terminal event", end.Reply)
		for _, file := range end.Files {
			look(id, "its terminal event", &file)
		}
	}
	for _, l := range f.DeadLetters {
		look(l.Job, "the dead letter "+l.Code, l.Data)
		// If a node is unavailable, the NATS client may send a chunk again after later ones and
		// thus tear a publisher's upload. Refusing a torn upload is correct.
		if torn := l.Upload != nil && l.Upload.Torn; !torn || l.Code != string(errcode.InputLost) {
			look(l.Job, "the dead letter "+l.Code, l.Upload)
		}
	}
	for _, c := range f.Chunks {
		look(c.Job, "a chunk", c.Block)
	}
	return looked
}

// sameFile checks that all copies are equal, because the upstreams have only one file for all
// videos. Failed copies are not listed.
func sameFile(f *facts, broken report) (looked int) {
	var first Object
	for _, id := range sortedBy(f.logs) {
		end, _ := f.end(id)
		for _, file := range end.Files {
			if looked++; first.Sum == "" {
				first = file
			}
			if file.Sum != first.Sum || file.Size != first.Size {
				broken(id, "the copy %s has %d bytes (%.12s), and %s has %d (%.12s)", file.Name, file.Size, file.Sum, first.Name, first.Size, first.Sum)
			}
		}
	}
	return looked
}

// requestBody checks only large requests, because these go through the object store. It matches
// bodies by marker. A different body sent with the same key has a different marker.
func requestBody(f *facts, broken report) (looked int) {
	asked := map[string][]string{} // long words sent, by marker
	for _, t := range f.Calls {
		if t.Marker != "" && !slices.Contains(asked[t.Marker], t.Input) {
			asked[t.Marker] = append(asked[t.Marker], t.Input)
		}
	}
	for _, p := range f.Posts {
		if p.Input == "" || len(asked[p.Marker]) == 0 {
			continue
		}
		looked++
		if !slices.Contains(asked[p.Marker], p.Input) {
			broken(p.Key, "POSTed at %s with %s, and the clients sent %q", clock(p.Time), p.Input, asked[p.Marker])
		}
	}
	for _, l := range f.DeadLetters {
		if l.Input == "" || l.Marker == "" || len(asked[l.Marker]) == 0 {
			continue
		}
		looked++
		if !slices.Contains(asked[l.Marker], l.Input) {
			broken(l.Job, "the dead letter %s has %s, and the clients sent %q", l.Code, l.Input, asked[l.Marker])
		}
	}
	return looked
}

// usage checks the usage events, which are stored before the work item is removed. A job that was
// never submitted has no usage.
func usage(f *facts, broken report) (looked int) {
	have := group(f.Usage, func(job string) string { return job })
	for id := range f.queued {
		end, ended := f.end(id)
		if !ended {
			continue
		}
		looked++
		want := 1
		if end.FirstSubmit.IsZero() {
			want = 0
		}
		if n := len(have[id]); n != want {
			broken(id, "ended %s at %s, and has %d usage events", endOf(end), clock(end.Time), n)
		}
	}
	return looked
}
