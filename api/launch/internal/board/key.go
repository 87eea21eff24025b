package board

import (
	"errors"
	"fmt"
)

// The limits of keys and values.
const (
	MaxKey   = 40
	MaxValue = 64 << 10
)

// ErrEntry is the error of a key or a value that no board takes.
var ErrEntry = errors.New("launch: bad key or value")

// Check reports whether a board takes the key and a value of n bytes.
func Check(key string, n int) error {
	if len(key) == 0 || len(key) > MaxKey {
		return fmt.Errorf("%w: key of %d characters, 1 to %d", ErrEntry, len(key), MaxKey)
	}
	for i := range len(key) {
		if !keyChar(key[i]) {
			return fmt.Errorf("%w: key %q: letters, digits, '.', '-' and '_'", ErrEntry, key)
		}
	}
	if n > MaxValue {
		return fmt.Errorf("%w: value of %d bytes, at most %d", ErrEntry, n, MaxValue)
	}
	return nil
}

func keyChar(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		return true
	}
	return false
}
