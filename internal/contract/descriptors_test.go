package contract_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/genbus/genbus/gen/genbus/v1/genbusv1grpc"
	"github.com/genbus/genbus/internal/contract"
	"github.com/genbus/genbus/internal/subject"
)

// registered returns the files of the contract and their imports, as linked into this binary.
func registered() map[string]*descriptorpb.FileDescriptorProto {
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

// TestDescriptors checks that the served set is what is linked, with comments, and that generators,
// which read it in order, find imports first.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	w := get(t, contract.NewSite(contract.Options{Names: subject.Default()}).Descriptors())
	var set descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(w.Body.Bytes(), &set); err != nil || w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/protobuf" {
		t.Fatal(err, w.Code, w.Header())
	}
	got := map[string]*descriptorpb.FileDescriptorProto{}
	for _, f := range set.GetFile() {
		for _, path := range f.GetDependency() {
			if got[path] == nil {
				t.Errorf("%s precedes %s, which it imports", f.GetName(), path)
			}
		}
		commented := slices.ContainsFunc(f.GetSourceCodeInfo().GetLocation(), func(l *descriptorpb.SourceCodeInfo_Location) bool {
			return strings.TrimSpace(l.GetLeadingComments()) != ""
		})
		if !commented && strings.HasPrefix(f.GetName(), "genbus/") {
			t.Errorf("%s has no comments", f.GetName())
		}
		f.SourceCodeInfo = nil
		got[f.GetName()] = f
	}
	if diff := cmp.Diff(registered(), got, protocmp.Transform()); diff != "" {
		t.Errorf("the set is not what is registered (-want +got):\n%s", diff)
	}
	if path := genbusv1grpc.File_genbus_v1_video_service_proto.Path(); got[path] == nil {
		t.Errorf("the set has no %s", path)
	}
}
