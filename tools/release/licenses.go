package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// licensesFile has the licenses of genbus, of Go, and of the modules in the binaries.
const licensesFile = "LICENSES"

func (r *release) writeLicenses(ctx context.Context) error {
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	var out bytes.Buffer
	if err := appendLicense(&out, "genbus "+r.tag, os.DirFS(r.source), "LICENSE"); err != nil {
		return err
	}
	if err := appendLicense(&out, r.goVersion, os.DirFS(strings.TrimSpace(string(goroot))), "LICENSE"); err != nil {
		return err
	}
	modules := r.modules()
	if len(modules) == 0 {
		return r.write(licensesFile, out.Bytes())
	}
	// Prints the directories of the modules. With arguments, it also works outside of a module.
	download := exec.CommandContext(ctx, "go", append([]string{"mod", "download", "-json"}, modules...)...)
	download.Dir = r.source
	printed, err := download.Output()
	if err != nil {
		return fmt.Errorf("go mod download: %w", err)
	}
	for d := json.NewDecoder(bytes.NewReader(printed)); ; {
		var module struct{ Path, Version, Dir string }
		if err := d.Decode(&module); errors.Is(err, io.EOF) {
			return r.write(licensesFile, out.Bytes())
		} else if err != nil {
			return fmt.Errorf("go mod download: %w", err)
		}
		if err := appendLicenses(&out, module.Path+"@"+module.Version, os.DirFS(module.Dir)); err != nil {
			return err
		}
	}
}

var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents|unlicense)(\.(txt|md))?$`)

// appendLicenses appends the license files of a module, including those of code that it copied
// from elsewhere into its directories.
func appendLicenses(out *bytes.Buffer, module string, files fs.FS) error {
	found := false
	err := fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && e.Name() == "testdata":
			return fs.SkipDir
		case e.IsDir() || !licenseName.MatchString(e.Name()):
			return nil
		}
		found = true
		return appendLicense(out, module, files, path)
	})
	if err == nil && !found {
		err = fmt.Errorf("%s has no license file", module)
	}
	return err
}

func appendLicense(out *bytes.Buffer, of string, files fs.FS, path string) error {
	text, err := fs.ReadFile(files, path)
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	fmt.Fprintf(out, "%s\n%s, %s\n\n%s\n", strings.Repeat("=", 80), of, filepath.ToSlash(path), text)
	return nil
}
