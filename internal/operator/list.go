package operator

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/deadletter"
	"github.com/genbus/genbus/internal/errcode"
	"github.com/genbus/genbus/internal/subject"
)

// Bounds of one page.
const (
	defaultPage = 20
	maxPage     = 100
	// maxPageBytes is from which size on no letter is added. A gRPC client takes
	// 4 MiB unless it says otherwise.
	maxPageBytes = 1 << 20
	// maxScan and maxScanBytes bound what is read for one page where the code filters
	// much away.
	maxScan      = 1000
	maxScanBytes = 64 << 20
)

// Query chooses a page of letters. Empty fields choose all.
type Query struct {
	Kind, Tenant, Code string
	// Size is 1 to 100; more is taken as 100, and 0 as 20.
	Size int
	// Token is the Next of the page before, or empty.
	Token string

	stored *deadletter.Extent // those that it has; nil for all
}

// Page is some letters without the data of their requests: those of jobs, and after
// them those of requests that were never accepted, each oldest first.
type Page struct {
	Letters []*genbusv1.StoredDeadLetter
	// Next is the token of the next page; empty when this is the last. A page may be
	// short, or empty, and not the last: one call looks at so many letters only.
	Next string
}

// List lists dead letters.
func (p *DeadLetterActions) List(ctx context.Context, q Query) (Page, error) {
	seq, err := q.check()
	if err != nil {
		return Page{}, err
	}
	w := window{query: q}
	for {
		m, err := p.Streams.Next(ctx, subject.Kind(q.Kind), q.Tenant, seq)
		if errors.Is(err, broker.ErrNoMessage) {
			return w.page, nil
		}
		if err != nil {
			return Page{}, fmt.Errorf("list dead letters: %w", err)
		}
		if w.full() {
			w.page.Next = strconv.FormatUint(m.Seq, 10)
			return w.page, nil
		}
		if l := decode(m); w.wants(m, l) {
			w.add(l.stored())
		}
		seq = m.Seq + 1
	}
}

// check judges the query and gives the sequence that the page begins at.
func (q *Query) check() (seq uint64, err error) {
	var wrong []errcode.Violation
	if q.Kind != "" && !subject.Kind(q.Kind).Valid() {
		wrong = append(wrong, errcode.Violation{Field: "kind", Description: "must be video, chat or empty"})
	}
	if q.Tenant != "" && subject.CheckToken(q.Tenant) != nil {
		wrong = append(wrong, errcode.Violation{Field: "tenant", Description: "is not a valid name; requests with invalid names are listed under " + subject.InvalidTenant})
	}
	if q.Size < 0 {
		wrong = append(wrong, errcode.Violation{Field: "page_size", Description: "must be 0 to 100"})
	}
	if len(wrong) > 0 {
		return 0, errcode.Invalid(wrong)
	}
	if q.Size == 0 {
		q.Size = defaultPage
	}
	q.Size = min(q.Size, maxPage)
	if q.Token == "" {
		return 1, nil
	}
	if seq, err = strconv.ParseUint(q.Token, 10, 64); err != nil || seq == 0 {
		return 0, errcode.New(errcode.InvalidPageToken, "page_token does not belong to this list; list again without it")
	}
	return seq, nil
}

// window is a page while it is filled.
type window struct {
	query         Query
	page          Page
	bytes         int // of the page
	scanned, read int // messages, and their bytes, that were looked at
}

func (w *window) full() bool {
	return len(w.page.Letters) >= w.query.Size || w.bytes >= maxPageBytes || w.scanned >= maxScan || w.read >= maxScanBytes
}

// wants counts a message as looked at, and reports whether it is asked for.
func (w *window) wants(m broker.Stored, l letter) bool {
	w.scanned++
	w.read += len(m.Data)
	if w.query.stored != nil && !w.query.stored.Has(m) {
		return false
	}
	return w.query.Code == "" || l.GetError().GetCode() == w.query.Code
}

// add puts a letter on the page, without its data.
func (w *window) add(l *genbusv1.StoredDeadLetter) {
	l.Letter.Data, l.Letter.Reply = nil, nil
	w.page.Letters = append(w.page.Letters, l)
	w.bytes += proto.Size(l)
}
