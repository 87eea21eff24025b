package board

import (
	"context"
	"errors"
	"fmt"
	"strings"
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

// Kind is the kind of failure that ended a job. The numbers go over the wire.
type Kind uint8

// The kinds.
const (
	Other    Kind = iota
	Deadline      // a rank's time was up
	Gone          // a rank died or left
	Mistake       // ranks that do not fit together
	GivenUp       // a rank's caller gave up
	numKinds
)

// Valid reports whether there is such a kind.
func (k Kind) Valid() bool { return k < numKinds }

// ErrMistake is the error of ranks that contradict each other.
var ErrMistake = errors.New("launch: the ranks do not fit together")

// Nobody is the rank of a Failure that is not caused by a rank.
const Nobody = -1

// Failure is why ranks do not meet, the same at all of them.
type Failure struct {
	Rank int // the rank at fault, or Nobody
	Kind Kind
	Text string
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// Unwrap makes a passed deadline and a mistake known to errors.Is.
func (f *Failure) Unwrap() error {
	switch f.Kind {
	case Deadline:
		return context.DeadlineExceeded
	case Mistake:
		return ErrMistake
	default:
		return nil
	}
}

// Failed makes a Failure.
func Failed(rank int, kind Kind, format string, args ...any) *Failure {
	return &Failure{rank, kind, fmt.Sprintf(format, args...)}
}

// maxRuns bounds how much of a list of ranks is printed.
const maxRuns = 12

// Ranks writes the ranks for which in is true as people do: "1, 4-6, 9".
func Ranks(size int, in func(rank int) bool) string {
	var b strings.Builder
	runs := 0
	for r := 0; r < size; r++ {
		if !in(r) {
			continue
		}
		first := r
		for r+1 < size && in(r+1) {
			r++
		}
		if runs++; runs > maxRuns {
			b.WriteString(", ...")
			break
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		if first == r {
			fmt.Fprintf(&b, "%d", r)
		} else {
			fmt.Fprintf(&b, "%d-%d", first, r)
		}
	}
	return b.String()
}
