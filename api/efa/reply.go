package efa

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/wire"
)

// Reply sends p to the sender of a message that this endpoint has received, as Send does, or, if
// the message was tagged, as SendTag does with its tag. Every sender can be answered,
// on every device and whether or not it is in the address vector, see [Endpoint.Sender].
//
// If the sender has closed its endpoint, or another has taken its place since, p goes to nobody, and
// the error is [ErrPeerFailed]; ErrNotConnected, if the message's From means another peer by now.
func (e *Endpoint) Reply(ctx context.Context, m Message, p []byte, opts ...OpOption) error {
	to, fresh, err := e.sender(m)
	if err != nil {
		return callError("reply", err)
	}
	if err = e.refused(ope.KindSend, to, e.send(ctx, to, p, m.Tagged, m.Tag, opts)); err != nil && fresh && errors.Is(err, ErrPeerFailed) {
		_ = e.cfg.AV.Remove(ctx, to) // it was put there for this; the error to tell is err
	}
	return err
}

// Sender is the handle of the sender of a message that this endpoint has received, for all
// that Reply does not do: a [SendReq] with To, [Endpoint.Memory], Remove.
//
// A sender that is in no address vector is inserted, and is known by the handle from then on,
// until Remove; a program with ever new clients removes those whose PeerClosed or PeerFailed has come.
//
// ErrNotConnected: the handle was removed, and is another peer's now. ErrInvalid: the message
// has no sender, since it was sent or is made up. ErrAddrNotAvail: the vector takes no such peers.
func (e *Endpoint) Sender(m Message) (Addr, error) {
	to, _, err := e.sender(m)
	if err != nil {
		return NoAddr, callError("sender", err)
	}
	return to, nil
}

// sender reports, too, whether the handle is a new one.
func (e *Endpoint) sender(m Message) (to Addr, fresh bool, err error) {
	raw := m.Raw()
	switch {
	case raw == (RawAddr{}):
		return NoAddr, false, fmt.Errorf("%w: the message does not say who sent it", ErrInvalid)
	case raw.ConnID() == 0:
		return NoAddr, false, fmt.Errorf("%w: %s sends without headers, and has not said its connid", ErrNotConnected, raw)
	}
	av := e.cfg.AV
	if x := av.table.get(uint64(m.From)); x.age != 0 && x.raw == raw {
		return m.From, false, nil
	}
	// It was a stranger when the message came, or has another handle now.
	if to, fresh, err = av.meet(raw, m.From >= NoAddr); err != nil {
		err = fmt.Errorf("%s, peer %d: %w", raw, m.From, err)
	}
	return to, fresh, err
}

// meet is the handle of an address, which is inserted if it may be and is not there yet. fresh
// reports whether it was.
func (av *AddressVector) meet(raw RawAddr, may bool) (h Addr, fresh bool, err error) {
	av.mu.Lock()
	h, known := av.byAddr[raw]
	if known {
		av.mu.Unlock()
		return h, false, nil
	}
	if !may {
		av.mu.Unlock()
		return NoAddr, false, fmt.Errorf("%w: it was removed from the address vector after the message came", ErrNotConnected)
	}
	hs, eps, err := av.insertLocked([]Address{av.dom.fab.addressOf(raw)}, nil, "")
	av.mu.Unlock()
	tellAll(eps, hs)
	h, err = first(hs, err)
	return h, err == nil, err
}

// addressOf makes an address of a raw one whose device is not known: it is on that which
// reaches it, and Insert picks the same that the sender has picked.
func (f *Fabric) addressOf(raw wire.RawAddr) Address {
	var a Address
	for _, s := range f.schemes() {
		if _, ok := a.Raw(s); !ok {
			a.paths = append(a.paths, path{s, raw})
		}
	}
	return a
}
