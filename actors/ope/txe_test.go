package ope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/machine"
	"github.com/efactor/efactor/actors/peer"
)

type outcomes []error

func (o *outcomes) Done(_ *Request, r *Result) { *o = append(*o, r.Err) }

// TestViolation: a step that its machine does not have is counted, and ends the
// operation with ErrInternal; its caller gets the outcome once.
func TestViolation(t *testing.T) {
	p := newPools(t)
	env, sh := p.env, p.env.Sh
	link := &peer.Link{Err: peer.ErrDied}
	p.Closing = true // nothing can be sent to it

	var got outcomes
	tx := p.GetTx()
	tx.arm(&Request{Kind: KindSend, Sink: &got, Buf: make([]byte, 10)}, link)
	require.False(t, tx.must(tx.c.Step(CallerCopied)))
	require.Len(t, got, 1)
	require.ErrorIs(t, got[0], ErrInternal)
	require.ErrorIs(t, got[0], ErrViolation)
	require.Equal(t, "internal", ErrorType(got[0]))
	require.False(t, tx.busy, "it was released")

	got = nil
	rx := p.GetRx()
	rx.arm(link)
	rx.entry = p.Entries.Get(&Request{Kind: KindRecv, Sink: &got, Buf: make([]byte, 10)}, sh.Now())
	rx.m.Begin(RxMatched, LongCTS, 10, 10)
	require.False(t, rx.step(RxAsked))
	require.Len(t, got, 1)
	require.ErrorIs(t, got[0], ErrInternal)
	require.False(t, rx.busy, "it was released")

	require.EqualValues(t, 2, env.Counters.Violations)
	require.EqualValues(t, 2, p.Steps.caller[machine.Entry(uint8(CallerHolding), uint8(CallerOutcome))])
}
