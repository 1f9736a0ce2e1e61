package content

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/errcode"
)

// OpenArchive is like Reader.Open but opens archived content. contentType is the type that Archive
// returned. To serve a range, OpenArchive must read everything before the range. Errors are
// *errcode.Error: ContentExpired if the object is lost, and BrokerUnavailable otherwise.
func OpenArchive(ctx context.Context, bodies *broker.Bodies, ref broker.Body, contentType string, q Request) (*File, error) {
	body, err := bodies.Open(ctx, ref)
	switch {
	case errors.Is(err, broker.ErrBodyLost), err == nil && ref.Size > math.MaxInt64:
		return nil, errcode.New(errcode.ContentExpired, "the archive no longer has the content: %w", err)
	case err != nil:
		return nil, errcode.New(errcode.BrokerUnavailable, "the archive could not be read: %s", broker.Reason(err)).Because(err)
	}
	kind := declaredType(contentType)
	if kind == "" || kind == typeJSON || kind == typeHTML {
		kind = typeUnknown
	}
	f := &File{Type: kind, Length: int64(ref.Size), ETag: `"` + hex.EncodeToString(ref.SHA256[:]) + `"`, Body: body}
	return newWant(q).of(f), nil
}

// Archive streams content into a new object in a tenant's object store and returns its reference
// and type. The object's name begins with prefix. Content longer than limit bytes (0 for no limit)
// fails with broker.ErrBodyTooLarge in the chain. Errors are *errcode.Error: those of Open if the
// content cannot be read to its end, and ArchiveFailed if it cannot be stored. A failed call leaves
// no object behind.
func (r *Reader) Archive(ctx context.Context, p Place, bodies *broker.Bodies, tenant, prefix string, limit int64) (broker.Body, string, error) {
	f, err := r.Open(ctx, p, Request{})
	if err != nil {
		return broker.Body{}, "", err
	}
	defer f.Body.Close()
	if limit > 0 && f.Length > limit {
		err := fmt.Errorf("%w: %d bytes, more than %d", broker.ErrBodyTooLarge, f.Length, limit)
		return broker.Body{}, "", errcode.New(errcode.ArchiveFailed, "%w", err)
	}
	ref, err := bodies.PutStream(ctx, tenant, prefix, f.Body, limit)
	if err == nil {
		return ref, f.Type, nil
	}
	if read, ok := errors.AsType[*errcode.Error](err); ok {
		return broker.Body{}, "", read
	}
	if broker.Unavailable(err) {
		return broker.Body{}, "", errcode.New(errcode.ArchiveFailed, "the content could not be stored: %s", broker.Reason(err)).Because(err)
	}
	return broker.Body{}, "", errcode.New(errcode.ArchiveFailed, "%w", err)
}
