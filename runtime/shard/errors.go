package shard

import "errors"

var (
	// ErrClosed is returned by what needs a shard that is closed.
	ErrClosed = errors.New("shard: closed")
	// ErrInTurn is returned by a call that would wait for the shard from inside
	// one of its own turns.
	ErrInTurn = errors.New("shard: waiting inside a turn")
)
