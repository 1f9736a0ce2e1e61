package protoset_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/protoset"
)

// written writes a set to a new directory.
func written(t *testing.T) (protoset.Set, string) {
	t.Helper()
	set, err := protoset.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "new", "set")
	if err := set.Write(dir); err != nil {
		t.Fatal(err)
	}
	return set, dir
}

// registered returns the files of the contract and their imports, as linked into this binary.
func registered(t *testing.T) map[string]*descriptorpb.FileDescriptorProto {
	t.Helper()
	out := map[string]*descriptorpb.FileDescriptorProto{}
	var add func(f protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		out[f.Path()] = protodesc.ToFileDescriptorProto(f)
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("genbus.v1", func(f protoreflect.FileDescriptor) bool {
		add(f)
		return true
	})
	return out
}

// TestDirectoryCompilesAlone checks that the directory compiles without other files, and to the
// same descriptors as the service.
func TestDirectoryCompilesAlone(t *testing.T) {
	t.Parallel()
	set, dir := written(t)
	sources := slices.DeleteFunc(set.Paths(), func(path string) bool { return path == protoset.Descriptors })
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{ImportPaths: []string{dir}}}
	files, err := compiler.Compile(t.Context(), sources...)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]*descriptorpb.FileDescriptorProto{}
	for _, f := range files {
		got[f.Path()] = protodesc.ToFileDescriptorProto(f)
	}
	if diff := cmp.Diff(registered(t), got, protocmp.Transform()); diff != "" {
		t.Errorf("the sources are not what is registered (-want +got):\n%s", diff)
	}
}

func TestDescriptorSet(t *testing.T) {
	t.Parallel()
	_, dir := written(t)
	data, err := os.ReadFile(filepath.Join(dir, protoset.Descriptors))
	if err != nil {
		t.Fatal(err)
	}
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(data, &set); err != nil {
		t.Fatal(err)
	}
	got := map[string]*descriptorpb.FileDescriptorProto{}
	for _, f := range set.GetFile() {
		for _, path := range f.GetDependency() {
			if got[path] == nil {
				t.Errorf("%s stands before %s, which it imports", f.GetName(), path)
			}
		}
		if !slices.ContainsFunc(f.GetSourceCodeInfo().GetLocation(), func(l *descriptorpb.SourceCodeInfo_Location) bool {
			return strings.TrimSpace(l.GetLeadingComments()) != ""
		}) {
			t.Errorf("%s has no comments", f.GetName())
		}
		f.SourceCodeInfo = nil
		got[f.GetName()] = f
	}
	if diff := cmp.Diff(registered(t), got, protocmp.Transform()); diff != "" {
		t.Errorf("the set is not what is registered (-want +got):\n%s", diff)
	}
	if path := genbusv1grpc.File_genbus_v1_video_service_proto.Path(); got[path] == nil {
		t.Errorf("the set has no %s", path)
	}
}

func TestWriteAgain(t *testing.T) {
	t.Parallel()
	set, dir := written(t)
	older := filepath.Join(dir, "genbus", "v1", "video.proto")
	if err := os.WriteFile(older, []byte("// of an older version\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := set.Write(dir); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(older)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(set["genbus/v1/video.proto"]), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestForeignFilesStay(t *testing.T) {
	t.Parallel()
	set, err := protoset.New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{{Name: proto.String("a.proto"), Package: proto.String("a")}}})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		"genbus/v1/video.proto": []byte("mine"), protoset.Descriptors: other, "google/protobuf/timestamp.proto": []byte("mine"),
	} {
		dir := t.TempDir()
		name := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := set.Write(dir); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s was there: %v", path, err)
		}
		left := 0
		if err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				left++
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != string(content) || left != 1 {
			t.Errorf("%s: %v, %q, %d files", path, err, got, left)
		}
	}
}

// TestUnrelatedFilesStay checks that Write leaves other files in the directory alone.
func TestUnrelatedFilesStay(t *testing.T) {
	t.Parallel()
	set, dir := written(t)
	name := filepath.Join(dir, "buf.yaml")
	if err := os.WriteFile(name, []byte("version: v2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := set.Write(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != "version: v2\n" {
		t.Errorf("%v, %q", err, got)
	}
}
