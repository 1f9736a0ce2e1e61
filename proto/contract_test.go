// Package proto_test checks that the message files of the contract compile on their own and that
// every element has a comment.
package proto_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// protoFiles returns the paths of the contract's files, relative to proto/.
func protoFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("genbus/v1/*.proto")
	if err != nil || len(files) == 0 {
		t.Fatalf("no .proto files: %v", err)
	}
	return files
}

// compile compiles files found below dir. Imports resolve to dir and the well-known types only.
func compile(t *testing.T, dir string, files []string) linker.Files {
	t.Helper()
	c := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{dir}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	out, err := c.Compile(t.Context(), files...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestMessageFilesCompileAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var messages []string
	for _, f := range protoFiles(t) {
		if strings.HasSuffix(f, "_service.proto") {
			continue
		}
		copyFile(t, f, filepath.Join(dir, f))
		messages = append(messages, f)
	}
	for _, f := range compile(t, dir, messages) {
		imports := f.Imports()
		for i := range imports.Len() {
			path := imports.Get(i).Path()
			if !strings.HasPrefix(path, "google/protobuf/") && !slices.Contains(messages, path) {
				t.Errorf("%s imports %s; a message file imports google/protobuf/* and message files only", f.Path(), path)
			}
		}
	}
}

// TestServicesAreAlone checks that a file with a service has no messages. Services have a Go package
// of their own, so that programs that use only messages do not link gRPC.
func TestServicesAreAlone(t *testing.T) {
	t.Parallel()
	for _, f := range compile(t, ".", protoFiles(t)) {
		types := f.Messages().Len() + f.Enums().Len()
		if strings.HasSuffix(f.Path(), "_service.proto") != (f.Services().Len() == 1 && types == 0) || f.Services().Len() > 0 && types > 0 {
			t.Errorf("%s has %d services and %d other types", f.Path(), f.Services().Len(), types)
		}
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestEveryElementHasAComment(t *testing.T) {
	t.Parallel()
	for _, f := range compile(t, ".", protoFiles(t)) {
		wantComment := func(d protoreflect.Descriptor) {
			if strings.TrimSpace(f.SourceLocations().ByDescriptor(d).LeadingComments) == "" {
				t.Errorf("%s: %s has no comment", f.Path(), d.FullName())
			}
		}
		eachElement(f, wantComment)
	}
}

func eachElement(f protoreflect.FileDescriptor, visit func(protoreflect.Descriptor)) {
	for i := range f.Messages().Len() {
		m := f.Messages().Get(i)
		visit(m)
		for j := range m.Fields().Len() {
			visit(m.Fields().Get(j))
		}
	}
	for i := range f.Enums().Len() {
		e := f.Enums().Get(i)
		visit(e)
		for j := range e.Values().Len() {
			visit(e.Values().Get(j))
		}
	}
	for i := range f.Services().Len() {
		s := f.Services().Get(i)
		visit(s)
		for j := range s.Methods().Len() {
			visit(s.Methods().Get(j))
		}
	}
}
