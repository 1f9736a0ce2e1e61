package operator

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
)

// bulkToken is passed from a dry run to the run. It records which dead letters and jobs existed,
// and a hash of the request so that a run cannot use a different filter by mistake. It is not
// signed, because an operator who forges a token could also have sent any filter.
type bulkToken struct {
	existed deadletter.Extent
	request [8]byte
}

// hashOf returns a hash of a request. The request's fields token and dry_run must not be set.
func hashOf(m proto.Message) (hash [8]byte, err error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		return hash, err
	}
	sum := sha256.Sum256(append([]byte(m.ProtoReflect().Descriptor().FullName()), data...))
	return [8]byte(sum[:8]), nil
}

func (t bulkToken) String() string {
	data := binary.BigEndian.AppendUint64(nil, uint64(t.existed.At.UnixNano()))
	data = binary.BigEndian.AppendUint64(data, t.existed.Dead)
	data = binary.BigEndian.AppendUint64(data, t.existed.Rejected)
	return base64.RawURLEncoding.EncodeToString(append(data, t.request[:]...))
}

// parseBulkToken decodes a token. It returns an invalid_request error if the token is malformed.
func parseBulkToken(text string) (bulkToken, error) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) != 32 {
		return bulkToken{}, wrongToken("does not come from a dry run")
	}
	at := time.Unix(0, int64(binary.BigEndian.Uint64(data)))
	return bulkToken{
		existed: deadletter.Extent{At: at, Dead: binary.BigEndian.Uint64(data[8:]), Rejected: binary.BigEndian.Uint64(data[16:])},
		request: [8]byte(data[24:]),
	}, nil
}

func wrongToken(description string) error {
	return errcode.Invalid([]errcode.Violation{{Field: "token", Description: description}})
}
