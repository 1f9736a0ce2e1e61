// Package protoset makes the contract into files that other languages generate
// their types from: the .proto sources with all that they import, and one
// descriptor set. It generates nothing itself.
package protoset

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"github.com/bufbuild/protocompile/wellknownimports"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	contract "github.com/genbus/genbus/proto"
)

// Descriptors is the path of the descriptor set in a Set: a
// google.protobuf.FileDescriptorSet with every import before the file that
// imports it, and with the comments.
const Descriptors = "genbus.binpb"

// Set is the contract as files: the content by the path, which is relative and has
// slashes.
type Set map[string][]byte

// New compiles the sources that are part of the binary. The set has the files that
// they import too, those of google/protobuf included, as not every protoc comes
// with these.
func New(ctx context.Context) (Set, error) {
	resolver := wellknownimports.WithStandardImports(&protocompile.SourceResolver{
		Accessor: func(path string) (io.ReadCloser, error) { return contract.Sources.Open(path) },
	})
	roots, err := fs.Glob(contract.Sources, "genbus/v1/*.proto")
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{Resolver: resolver, SourceInfoMode: protocompile.SourceInfoStandard}
	files, err := compiler.Compile(ctx, roots...)
	if err != nil {
		return nil, fmt.Errorf("the contract does not compile: %w", err)
	}
	b := builder{set: Set{}, resolver: resolver}
	for _, f := range files {
		if err := b.add(f); err != nil {
			return nil, err
		}
	}
	b.set[Descriptors], err = proto.MarshalOptions{Deterministic: true}.Marshal(&b.descriptors)
	return b.set, err
}

// Paths are the paths of the set, sorted.
func (s Set) Paths() []string { return slices.Sorted(maps.Keys(s)) }

// builder collects files as they are met.
type builder struct {
	set         Set
	descriptors descriptorpb.FileDescriptorSet
	resolver    protocompile.Resolver
}

// add takes a file after its imports, once.
func (b *builder) add(f linker.File) error {
	if _, have := b.set[f.Path()]; have {
		return nil
	}
	for i := range f.Imports().Len() {
		if err := b.add(f.FindImportByPath(f.Imports().Get(i).Path())); err != nil {
			return err
		}
	}
	found, err := b.resolver.FindFileByPath(f.Path())
	if err != nil {
		return err
	}
	source, err := io.ReadAll(found.Source)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Path(), err)
	}
	compiled, ok := f.(linker.Result)
	if !ok {
		return fmt.Errorf("%s was not compiled from its source", f.Path())
	}
	b.set[f.Path()] = source
	b.descriptors.File = append(b.descriptors.File, compiled.FileDescriptorProto())
	return nil
}
