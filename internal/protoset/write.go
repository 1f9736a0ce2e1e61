package protoset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Write writes the set below dir and creates dir if needed. It replaces a set that any version
// wrote there before, which it recognizes by its descriptor set. A file that is neither part of
// that set nor equal to the new content is an error, and nothing is written.
func (s Set) Write(dir string) error {
	earlier, err := written(dir)
	if err != nil {
		return err
	}
	var foreign []error
	for _, path := range s.Paths() {
		if err := s.mayWrite(dir, path, earlier); err != nil {
			foreign = append(foreign, err)
		}
	}
	if len(foreign) > 0 {
		return errors.Join(foreign...)
	}
	for _, path := range s.Paths() {
		// The descriptor set comes last: until then the previous one lists its files.
		if path == Descriptors {
			continue
		}
		if err := write(dir, path, s[path]); err != nil {
			return err
		}
	}
	return write(dir, Descriptors, s[Descriptors])
}

// written returns the paths of an earlier set in dir; none without one.
func written(dir string) ([]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, Descriptors))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// A file that is not a descriptor set of the contract lists no files, and is itself foreign.
	var set descriptorpb.FileDescriptorSet
	if proto.Unmarshal(data, &set) != nil {
		return nil, nil //nolint:nilerr // see above
	}
	var paths []string
	ours := false
	for _, f := range set.GetFile() {
		paths = append(paths, f.GetName())
		ours = ours || f.GetPackage() == "genbus.v1"
	}
	if !ours {
		return nil, nil
	}
	return append(paths, Descriptors), nil
}

func (s Set) mayWrite(dir, path string, earlier []string) error {
	if slices.Contains(earlier, path) {
		return nil
	}
	name := filepath.Join(dir, filepath.FromSlash(path))
	have, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !bytes.Equal(have, s[path]):
		return fmt.Errorf("%s already exists and was not written by this command; name another directory, or move the file", name)
	}
	return nil
}

func write(dir, path string, data []byte) error {
	name := filepath.Join(dir, filepath.FromSlash(path))
	// Build tools of other users read these files.
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil { //nolint:gosec // see above
		return err
	}
	return os.WriteFile(name, data, 0o644) //nolint:gosec // see above
}
