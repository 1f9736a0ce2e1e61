// Package brief shortens the long words of a text to their length and digest, so that
// large texts can be kept and compared. It changes nothing else: two texts are equal
// when their short forms are, and a text that ends between two words is the beginning
// of another one when its short form is.
package brief

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

// longWord is the least length of a word that is shortened, in bytes.
const longWord = 1024

// Of is the text with its long words shortened. A word is a run of the characters of
// Base64, so that JSON stays JSON.
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

// Longest is the short form of the longest word, and empty where no word is long.
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

// wordEnd is the end of the word that begins at a place, or of what is no word.
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
