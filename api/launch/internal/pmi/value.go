package pmi

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/efactor/efactor/api/launch/internal/board"
)

// A value is base64 in parts: the first, under the key itself, begins with how many there
// are and a dot; part i lies under key:i.
const (
	minPart   = 64  // characters; launchers with less cannot be used
	maxPart   = 700 // as many as pass everywhere
	maxSuffix = 5   // ":1234"
	maxParts  = (board.MaxValue*4/3+2)/(minPart-maxSuffix) + 2
)

var encoding = base64.RawURLEncoding

// split cuts a value into parts of at most n characters.
func split(value []byte, n int) []string {
	text := encoding.EncodeToString(value)
	n -= maxSuffix // for the number
	count := max(1, (len(text)+n-1)/n)
	parts := make([]string, count)
	for i := range parts {
		parts[i] = text[min(i*n, len(text)):min((i+1)*n, len(text))]
	}
	parts[0] = strconv.Itoa(count) + "." + parts[0]
	return parts
}

func partKey(key string, i int) string {
	if i == 0 {
		return key
	}
	return key + ":" + strconv.Itoa(i)
}

// Put puts a value, to be seen after the next Fence.
func (k *Client) Put(ctx context.Context, key string, value []byte) error {
	if err := board.Check(key, len(value)); err != nil {
		return err
	}
	return k.do(ctx, func() error {
		_, most := k.speak.limits()
		for i, part := range split(value, min(most, maxPart)) {
			if err := k.speak.put(partKey(key, i), part); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get returns a value that was put before the last Fence.
func (k *Client) Get(ctx context.Context, key string) (value []byte, ok bool, err error) {
	err = k.do(ctx, func() error {
		value, ok, err = collect(key, k.speak.get)
		return err
	})
	return value, ok && err == nil, err
}

// collect gets all parts of a value.
func collect(key string, get func(string) (string, bool, error)) (value []byte, ok bool, err error) {
	first, ok, err := get(key)
	if err != nil || !ok {
		return nil, false, err
	}
	number, text, ok := strings.Cut(first, ".")
	count, err := strconv.Atoi(number)
	if !ok || err != nil || count < 1 || count > maxParts {
		return nil, false, malformed("value %q of key %s", clip(first), key)
	}
	var b strings.Builder
	b.WriteString(text)
	for i := 1; i < count; i++ {
		part, ok, err := get(partKey(key, i))
		if err != nil {
			return nil, false, err
		}
		if !ok || part == "" {
			return nil, false, malformed("part %d of %d of key %s is not there", i, count, key)
		}
		b.WriteString(part)
		if b.Len() > encoding.EncodedLen(board.MaxValue) {
			return nil, false, malformed("key %s has more than %d bytes", key, board.MaxValue)
		}
	}
	value, err = encoding.DecodeString(b.String())
	if err != nil || len(value) > board.MaxValue {
		return nil, false, malformed("value %q of key %s", clip(first), key)
	}
	return value, true, nil
}
