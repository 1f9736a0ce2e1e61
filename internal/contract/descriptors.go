package contract

import (
	"context"
	"fmt"
	"io"
	"io/fs"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	contract "github.com/genbus/genbus/proto"
)

// Descriptors returns the Protobuf contract as a google.protobuf.FileDescriptorSet with comments, in
// which imports precede the files that import them. It compiles the embedded sources, because
// generated code has no comments.
func Descriptors() ([]byte, error) {
	roots, err := fs.Glob(contract.Sources, "genbus/v1/*.proto")
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: func(path string) (io.ReadCloser, error) { return contract.Sources.Open(path) },
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), roots...) //nolint:forbidigo // it only reads embedded files
	if err != nil {
		return nil, fmt.Errorf("the contract does not compile: %w", err)
	}
	set, have := &descriptorpb.FileDescriptorSet{}, map[string]bool{}
	var add func(protoreflect.FileDescriptor)
	add = func(f protoreflect.FileDescriptor) {
		if have[f.Path()] {
			return
		}
		have[f.Path()] = true
		for i := range f.Imports().Len() {
			add(f.Imports().Get(i).FileDescriptor)
		}
		d := protodesc.ToFileDescriptorProto(f)
		if compiled, ok := f.(linker.Result); ok {
			d = compiled.FileDescriptorProto() // with comments
		}
		set.File = append(set.File, d)
	}
	for _, f := range files {
		add(f)
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(set)
}
