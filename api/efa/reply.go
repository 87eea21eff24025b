package efa

import (
	"context"
	"fmt"
)

// Reply sends p to the sender of a message that was received, tagged as that was: a request and its
// answer have the same tag. Options are those of Send. A sender in no address vector is inserted into
// the endpoint's, see Sender.
func (e *intake) Reply(ctx context.Context, m Message, p []byte, opts ...OpOption) error {
	to, err := e.Sender(m)
	if err != nil {
		return err
	}
	return e.send(ctx, to, p, m.Tagged, m.Tag, opts)
}

// Sender is the handle of the sender of a message that was received, to post an answer to. It is
// m.From, unless the sender is in no address vector: then it is inserted into the endpoint's, where
// [AddressVector.Remove] takes it out, and later messages have the handle in From. If the sender has
// closed and another endpoint is in its place, what is sent there ends with ErrPeerFailed.
// ErrInvalid: m was not received.
func (e *intake) Sender(m Message) (Addr, error) {
	switch {
	case m.raw == nil:
		return NoAddr, fmt.Errorf("%w: a message that was not received has no sender", ErrInvalid)
	case m.From < NoAddr:
		return m.From, nil
	}
	return e.cfg.AV.Insert(e.dom.fab.addressOf(*m.raw))
}

// addressOf is an address for a raw one that came from one of the fabric's devices: which one it
// is for, insertion finds out.
func (f *Fabric) addressOf(raw RawAddr) Address {
	a := Address{paths: make([]path, len(f.paths))}
	for i := range f.paths {
		a.paths[i] = path{f.paths[i].scheme, raw}
	}
	return a
}
