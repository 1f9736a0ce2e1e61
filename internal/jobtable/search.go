package jobtable

import (
	"encoding/base64"
	"encoding/json"
	"hash/fnv"

	"github.com/genbus/genbus/internal/subject"
)

// Search is a Filter with the requested page of its matches.
type Search struct {
	Filter
	// Oldest lists the oldest jobs first, by creation time. The default is newest first.
	Oldest bool `json:"oldest,omitempty"`
	// Size is the page size. Zero means DefaultPage, and values above MaxPage mean MaxPage.
	Size int `json:"size"`
	// Token is the NextToken of the previous page, or empty.
	Token string `json:"-"`
	After place  `json:"after,omitzero"`
	// ByTenant counts matching jobs per tenant instead of listing them. The result then contains
	// the Size tenants with the most unfinished jobs.
	ByTenant bool `json:"by_tenant,omitempty"`
}

// Legal reports whether a search received from another replica has a valid size.
func (s Search) Legal() bool { return s.Size > 0 && s.Size <= MaxPage }

// Normalized returns the search with a Size from 1 to MaxPage and with After set from Token. It
// returns ErrPageToken if the token belongs to another search.
func (s Search) Normalized() (Search, error) {
	s.Size = PageSize(s.Size)
	err := s.parseToken()
	return s, err
}

// TokenAfter returns the token of the page after found, or "" after the last page.
func (s Search) TokenAfter(found Found) string {
	if !found.More {
		return ""
	}
	return s.formatToken(found.Jobs[len(found.Jobs)-1].place)
}

// searchToken is a page token. It holds the place after which the page begins and the digest of the
// search.
type searchToken struct {
	place
	Of uint64 `json:"of"`
}

// digest identifies a search so that its page tokens do not work with another search.
func (s Search) digest() uint64 {
	s.Size, s.After = 0, place{}
	h := fnv.New64a()
	if data, err := json.Marshal(s); err == nil { // Marshal sorts map keys
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
