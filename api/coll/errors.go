package coll

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/internal/errtext"
)

// Errors of collectives, besides those of package efa: ErrInvalid for arguments,
// ErrClosed after Close.
var (
	// ErrMismatch: the ranks did not call the same collective with arguments that
	// fit together.
	ErrMismatch = errors.New("coll: the ranks' calls do not fit together")
	// ErrAborted: a rank gave up, since its context ended or it called Abort.
	ErrAborted = errors.New("coll: given up")
	// ErrNoContext: there are as many groups as there can be at a time.
	ErrNoContext = errors.New("coll: no context id is free")
)

// RankError is the error of all collectives of a group after one of its ranks has
// failed: because it died (Err is efa.ErrPeerFailed), gave up (ErrAborted) or
// called another collective than others did (ErrMismatch). All ranks that live get
// it.
type RankError struct {
	Rank int // in the group that the collective was called on
	Err  error
}

// Error names the rank and the cause.
func (e *RankError) Error() string {
	return fmt.Sprintf("coll: rank %d: %s", e.Rank, errtext.Cause(e.Err))
}

// refused frees a call and gives its error the collective's name.
func (x *call) refused(err error) error {
	err = &errtext.Error{Package: "coll", Op: x.kind.String(), Err: err}
	x.free()
	return err
}

// Unwrap gives the cause.
func (e *RankError) Unwrap() error { return e.Err }
