package main

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user of the image. It owns only the data.
const user = 65532

// refName is the annotation of a layout that names its content. Push appends it to the registry.
const refName = "org.opencontainers.image.ref.name"

// writeImage writes the image for all Linux binaries, as a layout and as a tar archive of it.
func (r *release) writeImage() error {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range r.binaries {
		if b.settings["GOOS"] != "linux" {
			continue
		}
		image, err := r.image(b)
		if err != nil {
			return err
		}
		platform := &v1.Platform{OS: "linux", Architecture: b.settings["GOARCH"]}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: platform}})
	}
	// "docker load" and "ctr image import" read the second name.
	name := "genbus:" + r.version()
	if err := r.writeLayout("image", index, map[string]string{refName: name, "io.containerd.image.name": "docker.io/library/" + name}); err != nil {
		return err
	}
	var entries []entry
	files := os.DirFS(filepath.Join(r.dist, "image"))
	err := fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == "." {
			return err
		}
		if e.IsDir() {
			entries = append(entries, entry{name: path + "/", mode: 0o755})
			return nil
		}
		data, err := fs.ReadFile(files, path)
		entries = append(entries, entry{name: path, mode: 0o644, data: data})
		return err
	})
	if err != nil {
		return err
	}
	data, err := r.archive(entries)
	if err != nil {
		return err
	}
	return r.write("genbus_"+r.tag+"_image.tar", data)
}

func (r *release) writeLayout(dir string, content mutate.Appendable, annotations map[string]string) error {
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: content, Descriptor: v1.Descriptor{Annotations: annotations}})
	_, err := layout.Write(filepath.Join(r.dist, dir), index)
	return err
}

// image returns the image of a binary, with the configuration of deploy/Dockerfile.
func (r *release) image(b binary) (v1.Image, error) {
	files, err := r.files(b)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{
		OS: "linux", Architecture: b.settings["GOARCH"], Created: v1.Time{Time: r.time}, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: "65532:65532", WorkingDir: "/", Entrypoint: []string{"/genbus"}, Cmd: []string{"serve"}, StopSignal: "SIGTERM",
			Volumes:      map[string]struct{}{"/data": {}},
			ExposedPorts: map[string]struct{}{"8080/tcp": {}, "9090/tcp": {}},
			Healthcheck: &v1.HealthConfig{
				Test:     []string{"CMD", "/genbus", "health"},
				Interval: 10 * time.Second, Timeout: 6 * time.Second, StartPeriod: time.Minute, Retries: 3,
			},
			Labels: r.labels(),
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: r.time}, CreatedBy: "deploy/release"}})
}

func (r *release) labels() map[string]string {
	return map[string]string{
		"org.opencontainers.image.title":       "genbus",
		"org.opencontainers.image.description": r.chart.Metadata.Description,
		"org.opencontainers.image.source":      repository,
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.version":     r.version(),
		"org.opencontainers.image.revision":    r.commit,
	}
}

// files returns the files of the image, as a tar archive.
func (r *release) files(b binary) ([]byte, error) {
	program, err := os.ReadFile(filepath.Join(r.dist, b.name))
	if err != nil {
		return nil, err
	}
	licenses, err := os.ReadFile(filepath.Join(r.dist, licensesFile))
	if err != nil {
		return nil, err
	}
	return r.archive([]entry{
		{name: "data/", mode: 0o755, owner: user},
		{name: "etc/", mode: 0o755},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o444, data: certificates()},
		{name: "genbus", mode: 0o555, data: program},
		{name: licensesFile, mode: 0o444, data: licenses},
	})
}

// certificates returns the public CA certificates that Mozilla trusts, at the version in go.mod.
// It omits those that Mozilla trusts only for old certificates, which a PEM file cannot express.
func certificates() []byte {
	var out []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return out
}
