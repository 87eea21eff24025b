package remote

import (
	"errors"
	"fmt"
)

// The errors of this package, to be found by errors.Is.
var (
	// ErrStarted: Start comes once for a system, and before anything is spawned there, since the
	// PIDs of earlier actors would name no process.
	ErrStarted = errors.New("remote: the actor system has an address, or actors, already")
	// ErrNoCodec: a message is neither protobuf nor of a type that a codec of Config takes.
	ErrNoCodec = errors.New("remote: no codec takes the message")
	// ErrTooLong: a message is longer than Config.MaxMessage.
	ErrTooLong = errors.New("remote: message too long")
	// ErrNoKind: the other process has no such kind.
	ErrNoKind = errors.New("remote: no such kind")
	// ErrNameExists: the other process has an actor of that name; Spawn returns its PID as well.
	ErrNameExists = errors.New("remote: the name exists")
	// ErrUnreachable: nobody answers at the address, or what answers is not this protocol.
	ErrUnreachable = errors.New("remote: unreachable")
	// ErrClosed: the Remote was closed, here or at the other side.
	ErrClosed = errors.New("remote: closed")

	errForgotten = fmt.Errorf("%w: the other side has taken this one for dead meanwhile, or was started again", ErrUnreachable)
	errFrame     = errors.New("remote: the other side broke the protocol")
)

func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errFrame, fmt.Sprintf(format, args...))
}
