package board

import (
	"context"
	"errors"
	"fmt"
)

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
