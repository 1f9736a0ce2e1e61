package chatlog

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/genbus/genbus/internal/subject"
)

// position records how far a reader has followed a chat.
type position struct {
	created int64  // creation time of the chunk stream, in Unix nanoseconds
	attempt uint32 // attempt of the chunks
	index   uint64 // next block
	seq     uint64 // sequence of the last chunk seen, or 0
	version uint64 // version of the last event seen, or 0
}

// tokenVersion is the first byte of a token; it changes with the format.
const tokenVersion = 1

const tokenHead = 1 + crc32.Size

// token encodes the position for clients.
func (p position) token(n subject.JobName) string {
	b := make([]byte, tokenHead, tokenHead+5*binary.MaxVarintLen64)
	b[0] = tokenVersion
	b = binary.AppendVarint(b, p.created)
	for _, v := range []uint64{uint64(p.attempt), p.index, p.seq, p.version} {
		b = binary.AppendUvarint(b, v)
	}
	binary.BigEndian.PutUint32(b[1:], checksum(n, b[tokenHead:]))
	return base64.RawURLEncoding.EncodeToString(b)
}

// checksum binds a token to its chat. It needs no secret, because a forged token affects only the
// client that sends it.
func checksum(n subject.JobName, payload []byte) uint32 {
	sum := crc32.ChecksumIEEE([]byte(n.Tenant + "." + n.ID))
	return crc32.Update(sum, crc32.IEEETable, payload)
}

// parseToken decodes a token. An empty token means the start of the chat. For an invalid token,
// parseToken returns ErrToken.
func parseToken(n subject.JobName, token string) (position, error) {
	if token == "" {
		return position{}, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(b) < tokenHead || b[0] != tokenVersion || binary.BigEndian.Uint32(b[1:]) != checksum(n, b[tokenHead:]) {
		return position{}, ErrToken
	}
	rest := b[tokenHead:]
	var p position
	created, n1 := binary.Varint(rest)
	if n1 <= 0 {
		return position{}, ErrToken
	}
	rest, p.created = rest[n1:], created
	var attempt uint64
	for _, into := range []*uint64{&attempt, &p.index, &p.seq, &p.version} {
		v, size := binary.Uvarint(rest)
		if size <= 0 {
			return position{}, ErrToken
		}
		rest, *into = rest[size:], v
	}
	if len(rest) > 0 || attempt > 1<<32-1 {
		return position{}, ErrToken
	}
	p.attempt = uint32(attempt)
	return p, nil
}
