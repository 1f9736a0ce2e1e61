package queue

import "testing"

func TestWindowHasItsSize(t *testing.T) {
	t.Parallel()
	w := window{size: 2}
	first, second, third := w.reserve(), w.reserve(), w.reserve()
	if !first || !second || third {
		t.Fatal("want two places")
	}
	w.settle(true)
	w.settle(false)
	if !w.reserve() || w.reserve() {
		t.Error("want the place back that was not used")
	}
	w.taken(2)
	if !w.reserve() {
		t.Error("want the places of those that were taken out")
	}
	update := w.beginRead()
	w.taken(1)
	if !w.reserve() {
		t.Error("want a place")
	}
	update(2) // two, of which one was taken and to which one came: two
	if w.reserve() {
		t.Error("want no place")
	}
	w.taken(9)
	if w.ready != 0 {
		t.Errorf("%d are ready", w.ready)
	}
}
