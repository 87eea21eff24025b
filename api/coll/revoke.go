package coll

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/efactor/efactor/api/efa"
)

// A group fails as a whole. The first call that meets an error claims the group's
// failure, sends all other ranks a revocation for which each has a receive posted,
// and only then ends the collectives in progress here. Each rank that gets one does
// the same once, so that all get it if the first one dies halfway.

// fail makes the group fail with e, unless it has already, and returns its failure.
func (g *group) fail(e *RankError) error {
	if !g.claim.CompareAndSwap(nil, e) {
		return g.failed()
	}
	if l := g.cfg.Logger; l != nil {
		l.Warn("group of ranks failed", "context", g.id, "rank", e.Rank, "err", e.Err)
	}
	g.tell(e)
	g.fate.Store(e)
	close(g.gone)
	g.mu.Lock()
	for _, cancel := range g.merged {
		cancel()
	}
	g.mu.Unlock()
	g.revocations.cancel()
	return e
}

// tell sends e to all others: also to those that are thought to be dead, since they may
// only have been out of reach.
func (g *group) tell(e *RankError) {
	msg := g.encode(e)
	for r, peer := range g.peers {
		if r != g.rank {
			// A rank that cannot be reached is dead, or its endpoint is.
			_ = g.ep.SendTag(context.Background(), peer, revokeTag(g.id), msg, efa.Inject)
		}
	}
}

// failed is the failure of a group whose failure is claimed, once all have been
// informed.
func (g *group) failed() error {
	if !g.simulated() {
		<-g.gone
	}
	return g.claim.Load()
}

// givenUp is the cause of a failure if a context ended.
func givenUp(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrAborted, context.Cause(ctx)) }

func died(err error) bool { return errors.Is(err, efa.ErrPeerFailed) }

// peerError is an error of an operation with a rank.
type peerError struct {
	rank int
	err  error
}

func (e *peerError) Error() string { return e.err.Error() }
func (e *peerError) Unwrap() error { return e.err }

// ours reports whether an error of an operation is no word about the other side.
func ours(err error) bool {
	return slices.ContainsFunc([]error{
		efa.ErrClosed, efa.ErrIO, efa.ErrBadState, efa.ErrAgain, efa.ErrNoMemory, efa.ErrNotSupported,
	}, func(e error) bool { return errors.Is(err, e) })
}

// verdict determines the rank at fault for an error of an algorithm.
func (x *call) verdict(err error) *RankError {
	var at *peerError
	switch {
	case x.parent.Err() != nil:
		return &RankError{x.rank, givenUp(x.parent)}
	case !errors.As(err, &at) || ours(err):
		return &RankError{x.rank, err}
	case errors.Is(err, efa.ErrPeerAborted), errors.Is(err, efa.ErrAccess), errors.Is(err, efa.ErrNoKey):
		// It has given up its part with us, and will send the reason. This receive
		// takes nothing: it ends when the revocation arrives, or the peer dies.
		never := efa.Match{Tag: revokeTag(x.id) | tagAck}
		_, _ = x.ep.RecvTag(x, never, nil, efa.From(x.peers[at.rank]))
	}
	if e := x.revocations.heardOf(x.group); e != nil {
		return e
	}
	if !errors.Is(err, ErrMismatch) && !died(err) {
		err = fmt.Errorf("%w: %w", efa.ErrPeerFailed, err) // it is nowhere any more
	}
	return &RankError{at.rank, err}
}

// Causes as a revocation has them.
const (
	causeOther = iota
	causeDied
	causeAborted
	causeMismatch
	numCauses
)

var causes = [numCauses]error{causeDied: efa.ErrPeerFailed, causeAborted: ErrAborted, causeMismatch: ErrMismatch}

// toldError is the cause of a failure as another rank reported it.
type toldError struct {
	text  string
	cause error
}

func (e *toldError) Error() string { return e.text }
func (e *toldError) Unwrap() error { return e.cause }

// revocation is a message of nonce, rank, cause and text.
const (
	revocationHead = 8 + 4 + 1
	revocationMost = 256
)

func (g *group) encode(e *RankError) []byte {
	cause := byte(causeOther)
	for i, c := range causes {
		if c != nil && errors.Is(e.Err, c) {
			cause = byte(i)
		}
	}
	b := binary.LittleEndian.AppendUint64(nil, g.nonce)
	b = binary.LittleEndian.AppendUint32(b, uint32(e.Rank))
	b = append(append(b, cause), e.Err.Error()...)
	return b[:min(len(b), revocationMost, g.limits.MaxInject)]
}

// decode reads a revocation. ok is false if it is not one of this group's.
func (g *group) decode(b []byte) (e *RankError, ok bool) {
	if len(b) < revocationHead || binary.LittleEndian.Uint64(b) != g.nonce {
		return nil, false
	}
	rank, cause := binary.LittleEndian.Uint32(b[8:]), b[12]
	if uint64(rank) >= uint64(len(g.peers)) || cause >= numCauses {
		return nil, false
	}
	return &RankError{int(rank), &toldError{string(b[revocationHead:]), causes[cause]}}, true
}

// quiesce waits until every rank has said that it knows of the group's failure, or
// is dead.
func (g *group) quiesce(ctx context.Context) {
	e := g.claim.Load()
	for r, peer := range g.peers {
		if r == g.rank || r == g.revocations.from || r == e.Rank && died(e.Err) {
			continue
		}
		var b [revocationMost]byte
		m := efa.Match{Tag: revokeTag(g.id), Ignore: tagIgnore}
		for {
			got, err := g.ep.RecvTag(ctx, m, b[:], efa.From(peer))
			if _, ours := g.decode(b[:got.N]); ours || err != nil {
				break
			}
		}
	}
}
