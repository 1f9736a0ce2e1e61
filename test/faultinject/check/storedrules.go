package check

import (
	"slices"

	"github.com/genbus/genbus/internal/errcode"
)

// objects: what is named was written before the message that names it, and stays as long
// as that does.
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
	for _, l := range f.Letters {
		look(l.Job, "the dead letter "+l.Code, l.Data)
		// A publisher's store can tear an upload while a node is away, as the NATS client sends
		// a chunk again after later ones. The refusal of one is right.
		if torn := l.Upload != nil && l.Upload.Torn; !torn || l.Code != string(errcode.InputLost) {
			look(l.Job, "the dead letter "+l.Code, l.Upload)
		}
	}
	for _, c := range f.Chunks {
		look(c.Job, "a chunk", c.Block)
	}
	return looked
}

// sameFile: the upstreams have one file for all videos, so that all copies of it are
// equal. A copy that could not be made is none.
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

// requestBody: large requests alone, which go through the object store. A request that
// was refused because its key had another body is not what the job has.
func requestBody(f *facts, broken report) (looked int) {
	asked := map[string][]string{} // the long words that were sent, by marker
	for _, t := range f.Told {
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
	for _, l := range f.Letters {
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

// usage: it comes before the work item goes. What was never submitted used nothing.
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
