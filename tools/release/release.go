package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
)

const repository = "https://github.com/genbus/genbus"

// release describes the release of the binaries in dist.
type release struct {
	dist      string
	source    string // a clone of the repository at the tag
	tag       string
	commit    string
	time      time.Time // of the commit
	goVersion string
	binaries  []binary // sorted by name
	chart     *chart.Chart
}

type binary struct {
	name     string // in dist
	info     *debug.BuildInfo
	settings map[string]string // of the build
}

// open reads which release the binaries belong to, and the chart in source.
func open(dist, source string) (*release, error) {
	files, err := filepath.Glob(filepath.Join(dist, "genbus_*"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no binaries", dist)
	}
	r := &release{dist: dist, source: source}
	for _, file := range files {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, err
		}
		b := binary{name: filepath.Base(file), info: info, settings: map[string]string{}}
		for _, s := range info.Settings {
			b.settings[s.Key] = s.Value
		}
		r.binaries = append(r.binaries, b)
	}
	first := r.binaries[0]
	r.tag, r.commit, r.goVersion = first.info.Main.Version, first.settings["vcs.revision"], first.info.GoVersion
	if r.time, err = time.Parse(time.RFC3339, first.settings["vcs.time"]); err != nil {
		return nil, fmt.Errorf("%s: time of the commit: %w", first.name, err)
	}
	for _, b := range r.binaries {
		if b.info.Main.Version != r.tag || b.settings["vcs.revision"] != r.commit || b.settings["vcs.modified"] != "false" || b.info.GoVersion != r.goVersion {
			return nil, fmt.Errorf("%s and %s were not built from the same commit with the same Go version", first.name, b.name)
		}
	}
	r.chart, err = loadChart(source)
	return r, err
}

// version is the tag as a version of the image.
func (r *release) version() string { return strings.TrimPrefix(r.tag, "v") }

// modules returns path@version of every module in a binary, sorted.
func (r *release) modules() []string {
	all := map[string]bool{}
	for _, b := range r.binaries {
		for _, m := range b.info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			all[m.Path+"@"+m.Version] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// build writes all files. The image contains the licenses. The provenance covers all files before
// it, and the checksums cover the provenance.
func (r *release) build(ctx context.Context, flags []string) error {
	if err := r.writeLicenses(ctx); err != nil {
		return fmt.Errorf("licenses: %w", err)
	}
	if err := r.writeSBOM(); err != nil {
		return fmt.Errorf("SBOM: %w", err)
	}
	if err := r.writeImage(); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := r.writeChart(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	if err := r.writeProvenance(flags); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	if err := r.writeChecksums(); err != nil {
		return fmt.Errorf("checksums: %w", err)
	}
	return nil
}

func (r *release) write(name string, data []byte) error {
	return os.WriteFile(filepath.Join(r.dist, name), data, 0o600)
}

// entry is a file in an archive, or a directory if its name ends with a slash.
type entry struct {
	name  string
	mode  int64
	owner int // user and group
	data  []byte
}

// archive returns a tar archive.
func (r *release) archive(entries []entry) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.data)), ModTime: r.time}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// gzipped returns a compressed tar archive.
func (r *release) gzipped(entries []entry) ([]byte, error) {
	data, err := r.archive(entries)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return out.Bytes(), err
}
