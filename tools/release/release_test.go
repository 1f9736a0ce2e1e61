package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"maps"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/spdx/tools-golang/spdx"
	"helm.sh/helm/v3/pkg/chart/loader"
)

const root = "../.."

// world has the source and the binaries of a small release.
type world struct{ dist, source string }

func command(t *testing.T, dir string, environ []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	// Ignore the machine's git configuration, which may sign tags for example.
	c.Dir, c.Env = dir, append(append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"), environ...)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newWorld builds a program that imports one module, for two Linux systems.
func newWorld(t *testing.T) world {
	t.Helper()
	w := world{dist: t.TempDir(), source: t.TempDir()}
	put(t, filepath.Join(w.source, "go.mod"), []byte("module example.com/x\n\ngo 1.26\n\nrequire github.com/pkg/errors v0.9.1\n"))
	put(t, filepath.Join(w.source, "go.sum"), content(t, "go.sum"))
	put(t, filepath.Join(w.source, "main.go"), []byte("package main\n\nimport \"github.com/pkg/errors\"\n\nfunc main() { _ = errors.New(\"\") }\n"))
	put(t, filepath.Join(w.source, ".gitignore"), content(t, filepath.Join(root, ".gitignore")))
	put(t, filepath.Join(w.source, "LICENSE"), content(t, filepath.Join(root, "LICENSE")))
	tracked := command(t, root, nil, "git", "ls-files", "deploy/helm/genbus")
	for _, file := range strings.Fields(tracked) {
		put(t, filepath.Join(w.source, file), content(t, filepath.Join(root, file)))
	}
	command(t, w.source, nil, "git", "init", "--quiet")
	command(t, w.source, nil, "git", "add", ".")
	command(t, w.source, nil, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", "first")
	command(t, w.source, nil, "git", "tag", "v0.1.0")
	w.compile(t, "amd64", "genbus_v0.1.0_linux_amd64")
	w.compile(t, "arm64", "genbus_v0.1.0_linux_arm64")
	return w
}

func (w world) compile(t *testing.T, arch, file string) {
	t.Helper()
	command(t, w.source, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + arch, "GOWORK=off", "GOFLAGS="},
		"go", "build", "-trimpath", "-buildvcs=true", "-o", filepath.Join(w.dist, file), ".")
}

func (w world) build(t *testing.T) {
	t.Helper()
	if err := run(t.Context(), io.Discard, []string{"build", w.dist, w.source, "CGO_ENABLED=0", "-trimpath"}); err != nil {
		t.Fatal(err)
	}
}

// digests returns the checksums of all files.
func digests(t *testing.T, dist string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := fs.WalkDir(os.DirFS(dist), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		sum := sha256.Sum256(content(t, filepath.Join(dist, path)))
		out[path] = hex.EncodeToString(sum[:])
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func image(t *testing.T, dist, arch string) v1.Image {
	t.Helper()
	files, err := layout.ImageIndexFromPath(filepath.Join(dist, "image"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(files); err != nil {
		t.Error(err)
	}
	top, err := files.IndexManifest()
	if err != nil || len(top.Manifests) != 1 {
		t.Fatal("want one index", top, err)
	}
	index, err := files.ImageIndex(top.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 2 {
		t.Fatal("want two images", manifest, err)
	}
	for _, d := range manifest.Manifests {
		if d.Platform.OS == "linux" && d.Platform.Architecture == arch {
			out, err := index.Image(d.Digest)
			if err != nil {
				t.Fatal(err)
			}
			return out
		}
	}
	t.Fatal("no image for " + arch)
	return nil
}

// walk calls yield with the files of the only layer of an image.
func walk(t *testing.T, of v1.Image, yield func(*tar.Header, []byte)) {
	t.Helper()
	layers, err := of.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatal("want one layer", layers, err)
	}
	r, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	walkTar(t, r, yield)
}

func walkTar(t *testing.T, r io.Reader, yield func(*tar.Header, []byte)) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		data, err2 := io.ReadAll(archive)
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		yield(h, data)
	}
}

// TestBuildsAreIdentical proves that neither the place nor the time of a build matters.
func TestBuildsAreIdentical(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	again := world{dist: t.TempDir(), source: filepath.Join(t.TempDir(), "elsewhere")}
	if err := errors.Join(os.CopyFS(again.dist, os.DirFS(w.dist)), os.CopyFS(again.source, os.DirFS(w.source))); err != nil {
		t.Fatal(err)
	}
	w.build(t)
	again.build(t)
	if diff := cmp.Diff(digests(t, w.dist), digests(t, again.dist)); diff != "" {
		t.Error(diff)
	}
}

// TestImage proves that the images have exactly the known files, and the configuration of
// deploy/Dockerfile.
func TestImage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.build(t)
	for _, arch := range []string{"amd64", "arm64"} {
		i := image(t, w.dist, arch)
		got := map[string]string{}
		walk(t, i, func(h *tar.Header, data []byte) {
			got[h.Name] = fmt.Sprintf("%04o %d:%d", h.Mode, h.Uid, h.Gid)
			if h.Name == "genbus" && !bytes.Equal(data, content(t, filepath.Join(w.dist, "genbus_v0.1.0_linux_"+arch))) {
				t.Errorf("%s has another binary", arch)
			}
			if h.Name == "etc/ssl/certs/ca-certificates.crt" && bytes.Count(data, []byte("BEGIN CERTIFICATE")) < 100 {
				t.Errorf("%s has too few CA certificates", arch)
			}
		})
		want := map[string]string{
			"data/": "0755 65532:65532", "genbus": "0555 0:0", "LICENSES": "0444 0:0",
			"etc/": "0755 0:0", "etc/ssl/": "0755 0:0", "etc/ssl/certs/": "0755 0:0", "etc/ssl/certs/ca-certificates.crt": "0444 0:0",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		config, err := i.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.OS != "linux" || config.Architecture != arch {
			t.Errorf("%s has the platform %s/%s", arch, config.OS, config.Architecture)
		}
		dockerfile := string(content(t, filepath.Join(root, "deploy/Dockerfile")))
		for _, line := range instructions(config.Config) {
			if !strings.Contains(dockerfile, line) {
				t.Errorf("deploy/Dockerfile does not contain %s", line)
			}
		}
		if config.Config.Labels["org.opencontainers.image.version"] != "0.1.0" {
			t.Errorf("labels: %v", config.Config.Labels)
		}
	}
	got := map[string]string{}
	walkTar(t, bytes.NewReader(content(t, filepath.Join(w.dist, "genbus_v0.1.0_image.tar"))), func(h *tar.Header, data []byte) {
		if h.Typeflag == tar.TypeReg {
			sum := sha256.Sum256(data)
			got[h.Name] = hex.EncodeToString(sum[:])
		}
	})
	if diff := cmp.Diff(digests(t, filepath.Join(w.dist, "image")), got); diff != "" {
		t.Errorf("the archive is not the layout: %s", diff)
	}
}

// instructions returns the lines of a Dockerfile that make this configuration.
func instructions(c v1.Config) []string {
	ports := strings.ReplaceAll(strings.Join(slices.Sorted(maps.Keys(c.ExposedPorts)), " "), "/tcp", "")
	h := c.Healthcheck
	lines := []string{
		"\nUSER " + c.User + "\n", "\nWORKDIR " + c.WorkingDir + "\n", "\nSTOPSIGNAL " + c.StopSignal + "\n", "\nEXPOSE " + ports + "\n",
		fmt.Sprintf("\nVOLUME [%q]\n", slices.Sorted(maps.Keys(c.Volumes))[0]),
		fmt.Sprintf("\nENTRYPOINT [%q]\nCMD [%q]\n", c.Entrypoint[0], c.Cmd[0]),
		fmt.Sprintf("\nHEALTHCHECK --interval=%.0fs --timeout=%.0fs --start-period=%.0fs --retries=%d CMD [%q, %q]\n",
			h.Interval.Seconds(), h.Timeout.Seconds(), h.StartPeriod.Seconds(), h.Retries, h.Test[1], h.Test[2]),
	}
	for name, value := range c.Labels {
		switch filepath.Ext(name) {
		case ".version":
			value = "$VERSION"
		case ".revision":
			value = "$REVISION"
		}
		lines = append(lines, fmt.Sprintf("%s=%q", name, value))
	}
	return lines
}

// TestDocuments proves that the SBOM, the licenses, the provenance and the checksums are complete.
func TestDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.build(t)

	var sbom spdx.Document
	if err := json.Unmarshal(content(t, filepath.Join(w.dist, "genbus_v0.1.0_sbom.spdx.json")), &sbom); err != nil {
		t.Fatal(err)
	}
	var packages []string
	for _, p := range sbom.Packages {
		packages = append(packages, p.PackageExternalReferences[0].Locator)
	}
	want := []string{"pkg:golang/example.com/x@v0.1.0", "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go"), "pkg:golang/github.com/pkg/errors@v0.9.1"}
	if diff := cmp.Diff(want, packages); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"genbus v0.1.0, LICENSE", runtime.Version() + ", LICENSE", "github.com/pkg/errors@v0.9.1, LICENSE"} {
		if !strings.Contains(string(content(t, filepath.Join(w.dist, "LICENSES"))), want) {
			t.Errorf("no license of %s", want)
		}
	}

	files := digests(t, w.dist)
	delete(files, "SHA256SUMS")
	var sums string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sums += files[name] + "  " + name + "\n"
	}
	lines := slices.Sorted(strings.Lines(string(content(t, filepath.Join(w.dist, "SHA256SUMS")))))
	if diff := cmp.Diff(slices.Sorted(strings.Lines(sums)), lines); diff != "" {
		t.Error(diff)
	}

	const provenance = "genbus_v0.1.0_provenance.json"
	delete(files, provenance)
	var statement struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		Predicate struct {
			BuildDefinition struct {
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
		}
	}
	if err := json.Unmarshal(content(t, filepath.Join(w.dist, provenance)), &statement); err != nil {
		t.Fatal(err)
	}
	subjects := map[string]string{}
	for _, s := range statement.Subject {
		subjects[s.Name] = s.Digest["sha256"]
	}
	if diff := cmp.Diff(files, subjects); diff != "" {
		t.Error(diff)
	}
	commit := strings.TrimSpace(command(t, w.source, nil, "git", "rev-parse", "HEAD"))
	if d := statement.Predicate.BuildDefinition.ResolvedDependencies; len(d) != 1 || d[0].Digest["gitCommit"] != commit {
		t.Errorf("%v, and the commit is %s", d, commit)
	}
}

// TestPush proves that a registry gets the same bytes, and a chart that Helm can load, and that
// files that do not match the checksums are refused.
func TestPush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.build(t)
	address := newRegistry(t)
	var out strings.Builder
	if err := run(t.Context(), &out, []string{"push", w.dist, address}); err != nil {
		t.Fatal(err)
	}
	for dir, repository := range map[string]string{"image": "genbus:0.1.0", "chart": "charts/genbus:0.1.0"} {
		files, err := layout.ImageIndexFromPath(filepath.Join(w.dist, dir))
		if err != nil {
			t.Fatal(err)
		}
		want, err := files.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		got, err := remote.Get(tag(t, address+"/"+repository))
		if err != nil {
			t.Fatal(err)
		}
		if got.Digest != want.Manifests[0].Digest || !strings.Contains(out.String(), repository+"@"+got.Digest.String()) {
			t.Errorf("%s has the digest %s, want %s; printed %s", repository, got.Digest, want.Manifests[0].Digest, &out)
		}
	}
	pulled, err := remote.Index(tag(t, address+"/genbus:0.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(pulled); err != nil {
		t.Error(err)
	}
	artifact, err := remote.Image(tag(t, address+"/charts/genbus:0.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := artifact.Manifest()
	if err != nil || manifest.Config.MediaType != chartConfig || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != chartContent {
		t.Fatal(manifest, err)
	}
	layers, err := artifact.Layers()
	if err != nil {
		t.Fatal(err)
	}
	packaged, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer packaged.Close()
	c, err := loader.LoadArchive(packaged)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Templates) == 0 {
		t.Errorf("the chart has no templates")
	}

	put(t, filepath.Join(w.dist, "SHA256SUMS.sig"), []byte("of the sums"))
	if err := run(t.Context(), io.Discard, []string{"push", w.dist, address}); err != nil {
		t.Error(err)
	}
	put(t, filepath.Join(w.dist, "chart/index.json"), []byte("{}"))
	if err := run(t.Context(), io.Discard, []string{"push", w.dist, address}); err == nil || !strings.Contains(err.Error(), "do not match SHA256SUMS") {
		t.Errorf("a changed file was not refused: %v", err)
	}
}

// newRegistry starts a registry, and returns its address.
func newRegistry(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(t.Output(), "", 0))))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

func tag(t *testing.T, of string) name.Tag {
	t.Helper()
	out, err := name.NewTag(of)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestIncompleteReleasesAreRefused proves that nothing is written if a license is missing, or
// if the binaries differ in their source.
func TestIncompleteReleasesAreRefused(t *testing.T) {
	t.Parallel()
	err := appendLicenses(&bytes.Buffer{}, "example.com/x@v1.0.0", fstest.MapFS{"license.go": {}})
	if err == nil || err.Error() != "example.com/x@v1.0.0 has no license file" {
		t.Error(err)
	}
	w := newWorld(t)
	command(t, w.source, nil, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "--allow-empty", "-m", "second")
	w.compile(t, "amd64", "genbus_v0.1.0_linux_other")
	if _, err := open(w.dist, w.source); err == nil || !strings.Contains(err.Error(), "not built from the same commit") {
		t.Error(err)
	}
}

// TestReleaseOfThisCommit runs deploy/release in two clones of HEAD with a signer. The releases must
// be identical. It starts the binary of the image, and makes a video with it.
func TestReleaseOfThisCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles for six systems, which takes minutes")
	}
	c, err := loader.LoadDir(filepath.Join(root, "deploy/helm/genbus"))
	if err != nil {
		t.Fatal(err)
	}
	release := "v" + c.Metadata.AppVersion
	clones := []string{filepath.Join(t.TempDir(), "clone"), filepath.Join(t.TempDir(), "clone")}
	command(t, root, nil, "git", "clone", "--quiet", "--no-hardlinks", "--no-tags", ".", clones[0])
	put(t, filepath.Join(clones[0], "deploy/allowed_signers"), []byte("genbus ssh-ed25519 AAAA\n"))
	command(t, clones[0], nil, "git", "add", ".")
	command(t, clones[0], nil, "git", "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet", "-m", "signers")
	command(t, clones[0], nil, "git", "tag", release)
	command(t, clones[0], nil, "git", "clone", "--quiet", "--no-hardlinks", ".", clones[1])
	var printed string
	for _, clone := range clones {
		printed = command(t, clone, nil, "bash", "deploy/release")
	}
	dist := filepath.Join(clones[0], "dist")
	if diff := cmp.Diff(digests(t, dist), digests(t, filepath.Join(clones[1], "dist"))); diff != "" {
		t.Error(diff)
	}

	address := newRegistry(t)
	if !strings.Contains(printed, "deploy/release push REGISTRY") {
		t.Errorf("the command does not print how to push: %s", printed)
	}
	command(t, clones[0], nil, "bash", "deploy/release", "push", address)
	if _, err := remote.Index(tag(t, address+"/genbus:"+c.Metadata.AppVersion)); err != nil {
		t.Error(err)
	}

	if runtime.GOOS != "linux" {
		t.Skip("the image is for Linux")
	}
	rootfs := t.TempDir()
	walk(t, image(t, dist, runtime.GOARCH), func(h *tar.Header, data []byte) {
		path := filepath.Join(rootfs, h.Name)
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
		} else {
			err = os.WriteFile(path, data, fs.FileMode(h.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if got := command(t, rootfs, nil, "./genbus", "version"); !strings.HasPrefix(got, release+" ") {
		t.Errorf("the image has version %s, want %s", got, release)
	}
	if got := command(t, rootfs, nil, "./genbus", "demo"); !strings.Contains(got, "completed   video_") {
		t.Errorf("no video was completed: %s", got)
	}
}
