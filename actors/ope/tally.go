package ope

import (
	"errors"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
)

// Tally counts how the operations ended that the application asked for. Written on
// the shard.
type Tally struct {
	OK, Failed [NumKinds]uint64
	Bytes      [NumKinds]uint64  // sent, placed or fetched
	Errors     map[string]uint64 // by ErrorType
}

// Count notes the outcome of a request.
func (c *Tally) Count(k Kind, bytes uint64, err error) {
	if err != nil {
		c.fail(k, bytes, err)
		return
	}
	c.succeed(k, bytes)
}

// succeed is Count of a request that did not fail.
func (c *Tally) succeed(k Kind, bytes uint64) {
	c.OK[k]++
	c.Bytes[k] += bytes
}

func (c *Tally) fail(k Kind, bytes uint64, err error) {
	c.Failed[k]++
	c.Bytes[k] += bytes
	if c.Errors == nil {
		c.Errors = make(map[string]uint64)
	}
	c.Errors[ErrorType(err)]++
}

// causes are the errors that have no libfabric number of their own, or a more
// telling name.
var causes = []struct {
	err  error
	name string
}{
	{peer.ErrDied, "peer_died"},
	{peer.ErrSilent, "peer_silent"},
	{peer.ErrReplaced, "peer_replaced"},
	{peer.ErrHoard, "peer_over_memory"},
	{peer.ErrIntruder, "peer_intruder"},
	{peer.ErrRemoved, "peer_removed"},
	{peer.ErrAborted, "peer_aborted"},
	{peer.ErrRefused, "peer_refused"},
	{peer.ErrNoAnswer, "no_answer"},
	{peer.ErrPeerFailed, "peer_failed"},
	{peer.ErrStopped, "FI_ESHUTDOWN"},
	{ErrRegionClosed, "region_closed"},
	{ErrInternal, "internal"},
	{ErrViolation, "protocol_violation"},
}

// ErrorType names the kind of an error: libfabric's number, or a word for what has
// none. There are few, so that they can be counted by.
func ErrorType(err error) string {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.name
		}
	}
	var n errno.Errno
	if errors.As(err, &n) {
		return n.Name()
	}
	return "_OTHER"
}
