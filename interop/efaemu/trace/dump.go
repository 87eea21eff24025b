package trace

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// symbol replaces n bytes at an offset.
type symbol struct {
	at, n int
	text  string
}

// dump shows bytes, those of symbols by their texts, others in groups of 4. Zeros at the end,
// and 8 or more of them elsewhere, are counted.
func dump(b []byte, symbols ...symbol) string {
	slices.SortFunc(symbols, func(x, y symbol) int { return x.at - y.at })
	var words []string
	at := 0
	for _, s := range symbols {
		if s.at < at || s.at+s.n > len(b) {
			continue
		}
		words = append(plain(words, b[:s.at], at), s.text)
		at = s.at + s.n
	}
	return strings.Join(plain(words, b, at), " ")
}

// plain adds the bytes from at on.
func plain(words []string, b []byte, at int) []string {
	for at < len(b) {
		end := at
		for end < len(b) && b[end] == 0 {
			end++
		}
		if end < len(b) {
			end &^= 3
		}
		if end-at >= 8 || end == len(b) && end > at {
			words, at = append(words, fmt.Sprintf("+%d", end-at)), end
			continue
		}
		end = min(at+4-at%4, len(b))
		words, at = append(words, hex.EncodeToString(b[at:end])), end
	}
	return words
}
