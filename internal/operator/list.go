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

const (
	defaultPage = 20
	maxPage     = 100
	// maxPageBytes is the size at which a page counts as full. gRPC clients accept messages of up
	// to 4 MiB by default.
	maxPageBytes = 1 << 20
	// maxScan and maxScanBytes bound what is read for one page when the filter by code rejects most
	// dead letters.
	maxScan      = 1000
	maxScanBytes = 64 << 20
)

// Query selects a page of dead letters. Empty fields match all.
type Query struct {
	Kind, Tenant, Code string
	// Size is the page size. Zero means 20, and values above 100 mean 100.
	Size int
	// Token is the Next of the previous page, or empty.
	Token string

	stored *deadletter.Extent // dead letters visible to the query; nil for all
}

// Page holds dead letters without their requests and replies. Dead letters of jobs come first,
// followed by rejected requests, each group oldest first.
type Page struct {
	DeadLetters []*genbusv1.StoredDeadLetter
	// Next is the token of the next page, or empty on the last one. A short or empty page is not
	// necessarily the last one, because one call scans a bounded number of dead letters.
	Next string
}

// List returns a page of dead letters.
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

// check validates the query, sets defaults and returns the sequence at which the page begins.
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

// window is a page being filled.
type window struct {
	query         Query
	page          Page
	bytes         int // size of the page
	scanned, read int // messages scanned, and their bytes
}

func (w *window) full() bool {
	return len(w.page.DeadLetters) >= w.query.Size || w.bytes >= maxPageBytes || w.scanned >= maxScan || w.read >= maxScanBytes
}

// wants counts a message as scanned and reports whether it matches.
func (w *window) wants(m broker.Stored, l deadLetter) bool {
	w.scanned++
	w.read += len(m.Data)
	if w.query.stored != nil && !w.query.stored.Has(m) {
		return false
	}
	return w.query.Code == "" || l.GetError().GetCode() == w.query.Code
}

// add appends a dead letter without its request and reply.
func (w *window) add(l *genbusv1.StoredDeadLetter) {
	l.Letter.Data, l.Letter.Reply = nil, nil
	w.page.DeadLetters = append(w.page.DeadLetters, l)
	w.bytes += proto.Size(l)
}
