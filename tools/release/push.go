package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push uploads the image and the chart, with the credentials of "docker login".
func push(ctx context.Context, out io.Writer, dist, registry string) error {
	if err := (&release{dist: dist}).verify(); err != nil {
		return err
	}
	for _, dir := range []string{"image", "chart"} {
		if err := pushLayout(ctx, out, filepath.Join(dist, dir), registry); err != nil {
			return fmt.Errorf("push %s: %w", dir, err)
		}
	}
	return nil
}

func pushLayout(ctx context.Context, out io.Writer, dir, registry string) error {
	files, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return err
	}
	manifest, err := files.IndexManifest()
	if err != nil {
		return err
	}
	content := manifest.Manifests[0] // the only one
	to, err := name.NewTag(registry + "/" + content.Annotations[refName])
	if err != nil {
		return err
	}
	var what remote.Taggable
	if content.MediaType.IsIndex() {
		what, err = files.ImageIndex(content.Digest)
	} else {
		what, err = files.Image(content.Digest)
	}
	if err != nil {
		return err
	}
	if err := remote.Push(to, what, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s@%s\n", to, content.Digest)
	return nil
}
