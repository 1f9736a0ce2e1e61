package jobtable

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"

	"github.com/genbus/genbus/internal/subject"
)

// Search is a Filter and the page of it that is wanted.
type Search struct {
	Filter
	// Oldest has the oldest jobs first, by when they were made; else the newest are.
	Oldest bool `json:"oldest,omitempty"`
	// Size is 1 to MaxPage; 0 is DefaultPage, more is MaxPage.
	Size int `json:"size"`
	// Token is the NextToken of the page before, or empty.
	Token string `json:"-"`
	After place  `json:"after,omitzero"`
	// ByTenant has the jobs that match counted by tenant, in place of a page of them: Size is
	// then the number of tenants, those with the most unfinished jobs first.
	ByTenant bool `json:"by_tenant,omitempty"`
}

// Legal reports whether another replica may ask for this search.
func (s Search) Legal() bool { return s.Size > 0 && s.Size <= MaxPage }

// Normalized returns the search with a size from 1 to MaxPage and After as its Token says. The
// error is ErrPageToken if the token belongs to another search.
func (s Search) Normalized() (Search, error) {
	s.Size = PageSize(s.Size)
	err := s.parseToken()
	return s, err
}

// TokenAfter returns the token of the page after a found one, or "" after the last.
func (s Search) TokenAfter(found Found) string {
	if !found.More {
		return ""
	}
	return s.formatToken(found.Jobs[len(found.Jobs)-1].place)
}

// searchToken is a page token: where the page begins, and what it is a page of.
type searchToken struct {
	place
	Of uint64 `json:"of"`
}

// digest tells searches apart, so that a token is not used with another one.
func (s Search) digest() uint64 {
	s.Size, s.After = 0, place{}
	h := fnv.New64a()
	if data, err := json.Marshal(s); err == nil { // maps are sorted
		_, _ = h.Write(data)
	}
	return h.Sum64()
}

func (s Search) formatToken(after place) string {
	data, err := json.Marshal(searchToken{place: after, Of: s.digest()})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

func (s *Search) parseToken() error {
	s.After = place{}
	if s.Token == "" {
		return nil
	}
	var t searchToken
	data, err := base64.RawURLEncoding.DecodeString(s.Token)
	if err != nil || json.Unmarshal(data, &t) != nil || t.Of != s.digest() || !t.Kind.Valid() ||
		subject.CheckToken(t.Tenant) != nil || subject.CheckToken(t.ID) != nil {
		return ErrPageToken
	}
	s.After = t.place
	return nil
}
