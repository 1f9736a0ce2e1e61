package bulk

import (
	"google.golang.org/protobuf/reflect/protoreflect"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// IsKnown reports whether this version knows all that an operation is to do. A filter of a newer
// one may have a field that this one would leave out, and so choose more.
func IsKnown(spec *genbusv1.OperationSpec) bool {
	return spec.GetWork() != nil && isKnown(spec.ProtoReflect())
}

func isKnown(m protoreflect.Message) bool {
	known := len(m.GetUnknown()) == 0
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.Message() == nil || f.IsMap(): // no spec has a map
		case f.IsList():
			for i := range v.List().Len() {
				known = known && isKnown(v.List().Get(i).Message())
			}
		default:
			known = known && isKnown(v.Message())
		}
		return known
	})
	return known
}

// WorkOf names what an operation does, as its field in OperationSpec is called; empty where this
// version does not know it.
func WorkOf(spec *genbusv1.OperationSpec) string {
	m := spec.ProtoReflect()
	f := m.WhichOneof(m.Descriptor().Oneofs().ByName("work"))
	if f == nil {
		return ""
	}
	return string(f.Name())
}
