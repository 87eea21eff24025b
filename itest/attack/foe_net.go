package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/efactor/efactor/api/efa"
)

// What foes above the device say: frames of api/efanet and of api/remote, as docs/efanet.md and
// docs/remote.md have them.
const (
	netOpen   = 1
	netAccept = 2
	netOffer  = 5
	netReset  = 9
	netGrant  = 11
	netPing   = 13

	laneOpen   = 1
	laneStream = 2
	laneBack   = 4

	netWindow = 1 << 20
)

func netTag(lane, id uint64) uint64 { return 0xEF<<56 | lane<<48 | id }

// liar is an endpoint that says what it likes to another one.
type liar struct {
	ep *efa.Endpoint
	to efa.Addr
}

// newLiar opens one.
func newLiar(ctx context.Context, s efa.Setup, victim efa.Address) (*liar, error) {
	ep, err := efa.OpenEndpoint(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("a foe's endpoint: %w", err)
	}
	l := &liar{ep: ep}
	if !victim.IsZero() {
		l.to, err = ep.AddressVector().Insert(victim)
	}
	return l, err
}

// net sends a frame of efanet.
func (l *liar) net(ctx context.Context, lane, id, kind, value uint64, body []byte) error {
	return l.ep.SendTag(ctx, l.to, netTag(lane, id), body, efa.Data(kind<<56|value))
}

// netAnswer is the body of an ACCEPT, and in the middle of an OPEN.
func netAnswer(b []byte, epoch uint64) []byte {
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint32(b, netWindow), epoch)
}

// opening is the body of an OPEN.
func opening(id, epoch uint64, address string) []byte {
	return append(netAnswer(binary.LittleEndian.AppendUint64(nil, id), epoch), address...)
}

// connect opens a connection, and returns the listener's number of it.
func (l *liar) connect(ctx context.Context, id uint64) (uint64, error) {
	if err := l.net(ctx, laneOpen, 0, netOpen, 1, opening(id, 5, l.ep.Address().String())); err != nil {
		return 0, err
	}
	d, err := l.ep.NextTag(ctx, efa.Match{Tag: netTag(laneBack, id)})
	if err != nil {
		return 0, err
	}
	defer d.Release()
	if d.Data>>56 != netAccept {
		return 0, fmt.Errorf("%w: frame %#x in answer to an OPEN", errTurned, d.Data)
	}
	return d.Data & (1<<48 - 1), nil
}

// acceptOne takes an OPEN and answers it, as a listener would. It returns the dialer's number.
func (l *liar) acceptOne(ctx context.Context, id uint64) (uint64, error) {
	d, err := l.ep.NextTag(ctx, efa.Match{Tag: netTag(laneOpen, 0)})
	if err != nil {
		return 0, err
	}
	theirs := binary.LittleEndian.Uint64(d.Body)
	a, err := efa.ParseAddress(string(d.Body[20:]))
	d.Release()
	if err != nil {
		return 0, err
	}
	if l.to, err = l.ep.AddressVector().Insert(a); err != nil {
		return 0, err
	}
	return theirs, l.net(ctx, laneBack, theirs, netAccept, id, netAnswer(nil, 5))
}

// Frames of remote.
const (
	actHello   = 1
	actWelcome = 2
	actData    = 3

	actTag      = 0xAC<<56 | 1
	actHelloTag = 0xAC<<56 | 3
	actVersion  = 3
)

// act sends a frame of remote.
func (l *liar) act(ctx context.Context, kind byte, session uint64, body []byte) error {
	tag := uint64(actTag)
	if kind == actHello {
		tag = actHelloTag
	}
	return l.ep.SendTag(ctx, l.to, tag, append(binary.LittleEndian.AppendUint64([]byte{kind}, session), body...))
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// saying is the body of a HELLO.
func saying(address, name string) []byte {
	return appendText(appendText([]byte{actVersion}, address), name)
}

// session begins one of remote under the name of an address, and returns its number there.
func (l *liar) session(ctx context.Context, mine uint64, address string) (uint64, error) {
	const again = 500 * time.Millisecond
	for ctx.Err() == nil {
		if err := l.act(ctx, actHello, mine, saying(address, address)); err != nil {
			return 0, err
		}
		wait, cancel := context.WithTimeout(ctx, again)
		d, err := l.ep.NextTag(wait, efa.Match{Tag: actTag})
		cancel()
		if err != nil {
			continue
		}
		b := append([]byte(nil), d.Body...)
		d.Release()
		if len(b) >= 18 && b[0] == actWelcome {
			return binary.LittleEndian.Uint64(b[10:]), nil
		}
	}
	return 0, ctx.Err()
}

// envelope is one message in a DATA frame, with a sender in a third process.
func envelope(target, senderAt, codec, typ string, body []byte) []byte {
	const hasSender, foreign = 1, 64
	b := appendText([]byte{hasSender | foreign}, target)
	b = appendText(appendText(append(b, 0), senderAt), "nobody")
	b = appendText(appendText(append(b, 0), codec), typ)
	return append(binary.AppendUvarint(b, uint64(len(body))), body...)
}
