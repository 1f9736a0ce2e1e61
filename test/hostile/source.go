package hostile

import (
	"hash/fnv"
	"io"
	"math/rand/v2"
	"strings"
)

// Source makes the random choices of one input. It is not safe for concurrent use.
type Source struct{ r *rand.Rand }

// At returns the Source of one input of an entrance. It always makes the same choices for the same
// arguments.
func At(seed uint64, entrance string, number int) *Source {
	h := fnv.New64a()
	_, _ = io.WriteString(h, entrance) // never fails
	return &Source{r: rand.New(rand.NewPCG(seed, h.Sum64()+uint64(number)))}
}

// N returns a number from 0 to n-1.
func (s *Source) N(n int) int { return s.r.IntN(n) }

// Chance returns true with this probability.
func (s *Source) Chance(percent int) bool { return s.r.IntN(100) < percent }

// Bytes returns n random bytes.
func (s *Source) Bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(s.r.Uint32())
	}
	return b
}

// One returns a random element of list.
func One[T any](s *Source, list []T) T { return list[s.r.IntN(len(list))] }

// Input is one hostile input.
type Input struct {
	// Name describes the defect, for failure messages.
	Name string
	// Bytes are the bytes to send or the body.
	Bytes []byte
	// Cut is true if the input is incomplete. The sender then closes its side of the connection
	// after the input.
	Cut bool
}

// Target describes the service, so that inputs get past authentication.
type Target struct {
	// Authorization is a tenant's header value, such as "Bearer key".
	Authorization string
	// AccessKey and SecretKey are a tenant's key pair.
	AccessKey, SecretKey string
	// Videos and Chats are IDs of the tenant's jobs.
	Videos, Chats []string
	// Marker is part of every prompt, so that leaks can be found.
	Marker string
}

func (t Target) video(s *Source) string {
	return anyOf(s, t.Videos, "video_aaaaaaaaaaaaaaaaaaaaaaaaaa")
}

func (t Target) chat(s *Source) string { return anyOf(s, t.Chats, "chat_aaaaaaaaaaaaaaaaaaaaaaaaaa") }

func anyOf(s *Source, list []string, otherwise string) string {
	if len(list) == 0 {
		return otherwise
	}
	return One(s, list)
}

// Text returns text that does harm if a program trusts it. It may be invalid UTF-8.
func Text(s *Source) string {
	if s.Chance(10) {
		return strings.Repeat(One(s, texts), 1+s.N(200))
	}
	return One(s, texts)
}

var texts = []string{
	"", " ", "\t", "\x00", "a\x00b", "\r\n", "\n", "\r", "\r\nX-Injected: 1\r\n", "\nlevel=ERROR msg=forged injected=1\n", "\x1b[31mred\x1b[0m",
	"\u202Egnp.exe", "\ufeff", "\u2028", "\u0085", "%", "%zz", "%00", "%0d%0aX-Injected:%201", "%25%32%65", "../../etc/passwd", "..%2f..%2f", `\..\..\`,
	"${jndi:ldap://127.0.0.1/a}", "%s%n%d%x", "{{7*7}}", "'; DROP TABLE jobs; --", `"><script>alert(1)</script>`, "*", ">", "genbus.task.>", "a.b.c", "$JS.API.>",
	"\xff\xfe", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "é", "𝕏", "👩‍👩‍👧‍👦", "null", "true", "NaN", "-1", "0", "007", "1e999", "18446744073709551616",
	"9223372036854775808", "-9223372036854775809", "2147483648", "1.7976931348623157e309", strings.Repeat("9", 400), strings.Repeat("a", 129), strings.Repeat("a", 256),
	strings.Repeat("A", 5000), strings.Repeat("é", 100), ",", "=", "k=v", "k=v,k=v", ";", ":", "bytes=0-", "data:,", "data:image/png;base64,!!!!", "\"", "\\", "\\u0000", "[DONE]",
}

// HeaderText returns hostile text without CR, LF and NUL, so that a header can carry it unchanged.
func HeaderText(s *Source) string {
	return strings.Map(func(c rune) rune {
		if c == '\r' || c == '\n' || c == 0 {
			return -1
		}
		return c
	}, Text(s))
}
