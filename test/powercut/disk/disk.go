// Package disk is the disk of a machine whose power can be cut. The tests of powercut build
// the message store of nats-server so that it syncs, renames and removes its files by the
// functions of this package; on files below a directory that is watched these do it, and keep
// what the disk would have after a cut.
//
// What a disk has is what was synced: the bytes that a file had when its sync began, from the
// moment on at which the sync is over. A file that was never synced is not there. A new name
// is there with the first sync of its file. Renames and removals take effect in their order,
// with the next sync of any file or directory, as a journal does it: until then, the disk has
// the names of before.
package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Disk keeps what a cut would leave of the files below a directory.
type Disk struct {
	dir    string
	takes  time.Duration
	onSync func(name string, grows int) error

	mu      sync.Mutex
	files   map[string]file // synced, by the name below dir
	pending []func()        // renames and removals since the last sync
}

// file is what is synced of a file. Its data grows, and never changes.
type file struct {
	data []byte
	info os.FileInfo // of the file that it was when it was synced
}

// disks are those that are watched.
var disks struct {
	sync.RWMutex
	all map[string]*Disk
}

// Watch watches a directory, which is empty, until Close. A sync takes as long as it is told.
// onSync is called when the sync of a file is about to be over, with its name below the
// directory, and the number of bytes that the disk does not have of it yet; where it returns
// an error, the sync fails with that, and nothing is synced. It may be called at the same time
// for several files.
func Watch(dir string, takes time.Duration, onSync func(name string, grows int) error) *Disk {
	d := &Disk{dir: filepath.Clean(dir), takes: takes, onSync: onSync, files: map[string]file{}}
	disks.Lock()
	defer disks.Unlock()
	if disks.all == nil {
		disks.all = map[string]*Disk{}
	}
	disks.all[d.dir] = d
	return d
}

// Close ends the watch.
func (d *Disk) Close() {
	disks.Lock()
	defer disks.Unlock()
	delete(disks.all, d.dir)
}

// of returns the disk that has a path, and the name that it has there; nil where none is watched.
func of(path string) (*Disk, string) {
	disks.RLock()
	defer disks.RUnlock()
	for dir, d := range disks.all {
		if name, ok := strings.CutPrefix(path, dir+string(filepath.Separator)); path == dir || ok {
			return d, name
		}
	}
	return nil, ""
}

// Sync is f.Sync.
func Sync(f *os.File) error {
	d, name := of(f.Name())
	if d == nil {
		return f.Sync()
	}
	return d.sync(f, name)
}

// Write is f.Write, of a file that was opened with O_SYNC or was not.
func Write(f *os.File, data []byte, synced bool) (int, error) {
	n, err := f.Write(data)
	if d, name := of(f.Name()); d != nil && err == nil && synced {
		err = d.sync(f, name)
	}
	return n, err
}

// Rename is os.Rename.
func Rename(from, to string) error {
	err := os.Rename(from, to)
	d, before := of(from)
	if err != nil || d == nil {
		return err
	}
	_, after := of(to)
	d.later(func() { d.rename(before, after) })
	return nil
}

// Remove is os.Remove.
func Remove(path string) error { return removed(path, os.Remove(path)) }

// RemoveAll is os.RemoveAll.
func RemoveAll(path string) error { return removed(path, os.RemoveAll(path)) }

func removed(path string, err error) error {
	if d, name := of(path); d != nil && err == nil {
		d.later(func() { d.rename(name, "") })
	}
	return err
}

func (d *Disk) later(f func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pending = append(d.pending, f)
}

// rename moves a file, or all files of a directory, or removes it where there is no name for
// it. It needs the lock.
func (d *Disk) rename(from, to string) {
	if to != "" {
		delete(d.files, to) // a file that was not synced takes the place of one that was
	}
	for name, f := range d.files {
		rest, below := strings.CutPrefix(name, from)
		if !below || rest != "" && rest[0] != filepath.Separator {
			continue
		}
		delete(d.files, name)
		if to != "" {
			d.files[to+rest] = f
		}
	}
}

func (d *Disk) sync(f *os.File, name string) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	synced, had := file{info: info}, 0
	if !info.IsDir() {
		// The name may be that of another file by now.
		named, err := os.Stat(f.Name())
		if err != nil || !os.SameFile(info, named) {
			return nil
		}
		if synced.data, had, err = d.read(f.Name(), name, info); err != nil {
			return err
		}
	}
	<-time.After(d.takes)
	if err := d.onSync(name, len(synced.data)-had); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, change := range d.pending {
		change()
	}
	d.pending = nil
	if !info.IsDir() {
		d.files[name] = synced
	}
	return nil
}

// read returns what a file has now, and the length of what was synced of the same file before.
// The store appends to files and replaces them: that is not read again.
func (d *Disk) read(path, name string, info os.FileInfo) (_ []byte, had int, _ error) {
	d.mu.Lock()
	before := d.files[name]
	d.mu.Unlock()
	data := before.data
	if before.info == nil || !os.SameFile(before.info, info) || info.Size() < int64(len(data)) {
		data = nil
	}
	more, err := section(path, int64(len(data)), info.Size())
	return append(data, more...), len(data), err
}

// section returns the bytes of a file from one place to another.
func section(path string, from, to int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	b := make([]byte, to-from)
	n, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read what is synced: %w", err)
	}
	return b[:n], nil
}

// Image is what a disk has after the power was cut: data by the name below the directory.
type Image map[string][]byte

// Cut returns what the disk has if the power is cut now. Of what files have grown by since
// their last sync, it has the share that is asked for, from 0 to 1, which ends anywhere.
func (d *Disk) Cut(unsynced float64) Image {
	d.mu.Lock()
	defer d.mu.Unlock()
	image := Image{}
	for name, f := range d.files {
		image[name] = f.data[:len(f.data):len(f.data)]
		path := filepath.Join(d.dir, name)
		info, err := os.Stat(path)
		if unsynced == 0 || err != nil || !os.SameFile(info, f.info) || info.Size() <= int64(len(f.data)) {
			continue
		}
		grown := float64(info.Size() - int64(len(f.data)))
		if tail, err := section(path, int64(len(f.data)), int64(len(f.data))+int64(grown*unsynced)); err == nil {
			image[name] = append(image[name], tail...)
		}
	}
	return image
}

// Write writes an image into a directory.
func (i Image) Write(dir string) error {
	for name, data := range i {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
