// Package brief replaces the long words of a text with their length and digest, so that large texts
// can be kept and compared. Everything else stays the same. Two texts are equal if their short
// forms are. A text that ends between two words is a prefix of another text if its short form is a
// prefix of the other's.
package brief

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// longWord is the minimum length in bytes of a word that is replaced.
const longWord = 1024

// Of returns text with its long words replaced. Words consist of Base64 characters, so JSON stays
// valid.
func Of(text string) string {
	if len(text) < longWord {
		return text
	}
	var out strings.Builder
	for begin := 0; begin < len(text); {
		end := wordEnd(text, begin)
		if inWord(text[begin]) && end-begin >= longWord {
			out.WriteString(digest(text[begin:end]))
		} else {
			out.WriteString(text[begin:end])
		}
		begin = end
	}
	return out.String()
}

// Longest returns the short form of the longest word, or "" if no word is long.
func Longest(text string) string {
	longest := ""
	for begin := 0; begin < len(text); {
		end := wordEnd(text, begin)
		if inWord(text[begin]) && end-begin > len(longest) {
			longest = text[begin:end]
		}
		begin = end
	}
	if len(longest) < longWord {
		return ""
	}
	return digest(longest)
}

// wordEnd returns the end of the word that starts at begin, or of the text between words that
// starts there.
func wordEnd(text string, begin int) int {
	end := begin + 1
	for end < len(text) && inWord(text[end]) == inWord(text[begin]) {
		end++
	}
	return end
}

func inWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '='
}

func digest(word string) string {
	sum := sha256.Sum256([]byte(word))
	return "~" + strconv.Itoa(len(word)) + ":" + hex.EncodeToString(sum[:12]) + "~"
}
