// Package protoset exports the contract as files for generating code in other languages: the .proto
// sources with all their imports, and a descriptor set.
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

// Descriptors is the path of the descriptor set: a google.protobuf.FileDescriptorSet with comments,
// in which imports precede the files that import them.
const Descriptors = "genbus.binpb"

// Set is the contract as files: contents by relative path with slashes.
type Set map[string][]byte

// New compiles the embedded sources. The set includes their imports, even google/protobuf, because
// not every protoc comes with those.
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

// Paths returns the paths of the set, sorted.
func (s Set) Paths() []string { return slices.Sorted(maps.Keys(s)) }

// builder collects files in the order of their imports.
type builder struct {
	set         Set
	descriptors descriptorpb.FileDescriptorSet
	resolver    protocompile.Resolver
}

// add adds a file once, after its imports.
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
