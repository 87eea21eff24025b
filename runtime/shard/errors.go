package shard

import "errors"

var (
	// ErrClosed is returned by calls that need the shard and find it closed.
	ErrClosed = errors.New("shard: closed")
	// ErrInTurn is returned by a call that would wait for the shard from inside
	// one of its own turns.
	ErrInTurn = errors.New("shard: waiting inside a turn")
)
