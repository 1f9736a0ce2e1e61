package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
)

// The media types of charts. helm.sh/helm/v3/pkg/registry has them too, but needs many modules.
const (
	chartConfig  types.MediaType = "application/vnd.cncf.helm.config.v1+json"
	chartContent types.MediaType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

func loadChart(source string) (*chart.Chart, error) {
	c, err := loader.LoadDir(filepath.Join(source, "deploy/helm/genbus"))
	if err != nil {
		return nil, fmt.Errorf("chart: %w", err)
	}
	return c, nil
}

// writeChart writes the packaged chart, and a layout for registries.
func (r *release) writeChart() error {
	packaged, err := r.packageChart()
	if err != nil {
		return err
	}
	version := r.chart.Metadata.Version
	if err := r.write("genbus-"+version+".tgz", packaged); err != nil {
		return err
	}
	artifact, err := r.chartArtifact(packaged)
	if err != nil {
		return err
	}
	return r.writeLayout("chart", artifact, map[string]string{refName: "charts/genbus:" + version})
}

// packageChart returns what "helm package" would write, but with the time of the commit.
func (r *release) packageChart() ([]byte, error) {
	var entries []entry
	for _, f := range r.chart.Raw {
		entries = append(entries, entry{name: "genbus/" + f.Name, mode: 0o644, data: f.Data})
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	return r.gzipped(entries)
}

func (r *release) chartArtifact(packaged []byte) (v1.Image, error) {
	config, err := json.Marshal(r.chart.Metadata)
	if err != nil {
		return nil, err
	}
	content := static.NewLayer(packaged, chartContent)
	about, err := partial.Descriptor(content)
	if err != nil {
		return nil, err
	}
	configDigest, size, err := v1.SHA256(bytes.NewReader(config))
	if err != nil {
		return nil, err
	}
	annotations := r.labels()
	annotations["org.opencontainers.image.version"] = r.chart.Metadata.Version
	annotations["org.opencontainers.image.created"] = r.time.UTC().Format(time.RFC3339)
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: annotations,
		Config: v1.Descriptor{MediaType: chartConfig, Digest: configDigest, Size: size},
		Layers: []v1.Descriptor{*about},
	})
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(chartImage{manifest: manifest, config: config, content: content})
}

// chartImage lets the library for images read a chart.
type chartImage struct {
	manifest, config []byte
	content          v1.Layer
}

// MediaType implements partial.CompressedImageCore.
func (c chartImage) MediaType() (types.MediaType, error) { return types.OCIManifestSchema1, nil }

// RawManifest implements partial.CompressedImageCore.
func (c chartImage) RawManifest() ([]byte, error) { return c.manifest, nil }

// RawConfigFile implements partial.CompressedImageCore.
func (c chartImage) RawConfigFile() ([]byte, error) { return c.config, nil }

// LayerByDigest implements partial.CompressedImageCore.
func (c chartImage) LayerByDigest(v1.Hash) (partial.CompressedLayer, error) { return c.content, nil }
