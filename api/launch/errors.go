package launch

import (
	"errors"
	"fmt"
	"net"

	"github.com/efactor/efactor/api/launch/internal/board"
)

// ErrMismatch is the error of ranks that contradict each other: two with one rank, other
// numbers of ranks, other versions, other secrets.
var ErrMismatch = board.ErrMistake

// ErrNoKey is the error of Get for a key that was not put.
var ErrNoKey = errors.New("launch: no such key on the board")

// RankError names the rank that kept the others from meeting. It is the same at all ranks
// that can still be reached.
type RankError struct {
	Rank   int
	Reason string
	Err    error // for errors.Is; may be nil
}

// Error implements error.
func (e *RankError) Error() string { return e.Reason }

// Unwrap gives errors.Is what it looks for.
func (e *RankError) Unwrap() error { return e.Err }

// public is an error of a carrier as callers are to see it.
func public(launcher string, err error) error {
	if err == nil {
		return nil
	}
	var f *board.Failure
	if errors.As(err, &f) && f.Rank != board.Nobody {
		err = &RankError{f.Rank, err.Error(), f.Unwrap()}
	}
	if errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("launch: the job is closed: %w", err)
	}
	return fmt.Errorf("launch: %s: %w", launcher, err)
}
