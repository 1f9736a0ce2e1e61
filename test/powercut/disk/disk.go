// Package disk models the disk of a machine whose power can be cut. The powercut tests build
// nats-server's message store so that it syncs, renames and removes files with the functions of
// this package. For files below a watched directory, these functions also track the data that a
// power cut would leave.
//
// A sync takes effect when it ends, for the bytes that the file had when it began. A file that was
// never synced does not exist after a cut. A new name appears with the first sync of its file.
// Renames and removals take effect in order with the next sync of any file or directory, as in a
// journal. Until then, the old names remain.
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

// Disk tracks the data that a power cut would leave below a directory.
type Disk struct {
	dir    string
	takes  time.Duration
	onSync func(name string, grows int) error

	mu      sync.Mutex
	files   map[string]file // synced files, by name below dir
	pending []func()        // renames and removals since the last sync
}

// file is the synced content of a file. Its data may grow but is never overwritten.
type file struct {
	data []byte
	info os.FileInfo // identifies the file that was synced
}

// disks holds the watched disks by directory.
var disks struct {
	sync.RWMutex
	all map[string]*Disk
}

// Watch watches an empty directory until Close is called. takes is the duration of a sync. At the
// end of a sync, onSync is called with the file's name below the directory and the number of bytes
// that are not on disk yet. If onSync returns an error, the sync returns that error and has no
// effect. onSync may be called concurrently for several files.
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

// of returns the disk that contains path and the name of path on it. The disk is nil if path is not
// watched.
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

// Sync replaces f.Sync.
func Sync(f *os.File) error {
	d, name := of(f.Name())
	if d == nil {
		return f.Sync()
	}
	return d.sync(f, name)
}

// Write replaces f.Write. synced is true if the store opens the file with O_SYNC.
func Write(f *os.File, data []byte, synced bool) (int, error) {
	n, err := f.Write(data)
	if d, name := of(f.Name()); d != nil && err == nil && synced {
		err = d.sync(f, name)
	}
	return n, err
}

// Rename replaces os.Rename.
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

// Remove replaces os.Remove.
func Remove(path string) error { return removed(path, os.Remove(path)) }

// RemoveAll replaces os.RemoveAll.
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

// rename renames a file or all files of a directory. If to is empty, it removes them. The caller
// holds d.mu.
func (d *Disk) rename(from, to string) {
	if to != "" {
		delete(d.files, to) // an unsynced file may replace a synced one
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
		// The name may belong to another file by this time.
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

// read returns the current data of a file and the length of its synced part. The store only appends
// to files or replaces them, so the synced part is not read again.
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

// section returns the bytes of a file between two offsets, or fewer if the file is shorter.
func section(path string, from, to int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // read-only
	b := make([]byte, to-from)
	n, err := f.ReadAt(b, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read what is synced: %w", err)
	}
	return b[:n], nil
}

// Image holds the data on a disk after a power cut, by name below the directory.
type Image map[string][]byte

// Cut returns the data left if the power is cut now. unsynced is the share, from 0 to 1, of the
// bytes appended to each file since its last sync that survive.
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

// Write writes the files of an image into a directory.
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
