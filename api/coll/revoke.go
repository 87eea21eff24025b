package coll

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/runtime/clock"
)

// Errors of collectives, besides those of package efa: ErrInvalid for arguments,
// ErrClosed after Close.
var (
	// ErrMismatch: the ranks did not call the same collective with arguments that
	// fit together.
	ErrMismatch = errors.New("coll: the ranks' calls do not fit together")
	// ErrAborted: a rank gave up, since its context ended, it called Abort, or its operator
	// did not return.
	ErrAborted = errors.New("coll: given up")
	// ErrNoContext: there are as many groups as there can be at a time.
	ErrNoContext = errors.New("coll: no context id is free")
)

// RankError is the error of all collectives of a group after one of its ranks has
// failed: because it died (Err is efa.ErrPeerFailed), gave up (ErrAborted; its operator
// panicked, too) or called another collective than others did (ErrMismatch). All ranks that
// live get it.
type RankError struct {
	Rank int // in the group that the collective was called on
	Err  error
}

// Error names the rank and the cause.
func (e *RankError) Error() string {
	return fmt.Sprintf("coll: rank %d: %s", e.Rank, errtext.Cause(e.Err))
}

// Unwrap gives the cause.
func (e *RankError) Unwrap() error { return e.Err }

// A group fails as a whole. The first call that meets an error claims the group's
// failure, sends all other ranks a revocation for which each has a receive posted,
// and only then ends the collectives in progress here. Each rank that gets one does
// the same once, so that all get it if the first one dies halfway. The rank that seems to be
// dead hears of it until Close, see remind, and the rank that finds it so looks whether it is not
// itself that is cut off, see reach.

// fail makes the group fail with e, unless it has already, and returns its failure.
func (g *group) fail(e *RankError) error {
	if !g.claim.CompareAndSwap(nil, e) {
		return g.failed()
	}
	if found := died(e.Err) && !reported(e.Err); !found || len(g.peers) <= 2 {
		g.notify(e)
	} else if !g.reach(e) {
		e = &RankError{g.rank, fmt.Errorf("no other rank can be reached: rank %d: %w", e.Rank, e.Err)}
		g.claim.Store(e)
	} else if us := g.revocations.heardOf(g); us != nil && us.Rank == g.rank {
		e = us
		g.claim.Store(e)
	}
	g.fate.Store(e)
	if died(e.Err) && e.Rank != g.rank {
		g.remind(e)
	}
	close(g.gone)
	g.mu.Lock()
	for _, cancel := range g.endings {
		cancel(e)
	}
	g.mu.Unlock()
	g.revocations.cancel()
	if l := g.family.cfg.Logger; l != nil { // last: it is the caller's, and may not return
		l.Warn("group of ranks failed", "context", g.id, "rank", e.Rank, "err", e.Err)
	}
	return e
}

// telling is the context of sends that tell other ranks: they wait for their places no longer than reachTime, and
// not beyond the time that Close has.
func (g *group) telling() (context.Context, context.CancelFunc) {
	if g.family.simulated() { // a rank that keeps others waiting lives
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(g.enough, reachTime)
}

// notify sends e to all other ranks: also to those that are thought to be dead, since they may
// only have been out of reach.
func (g *group) notify(e *RankError) {
	msg := g.encode(e)
	ctx, cancel := g.telling()
	defer cancel()
	var again []efa.Addr // there was no place for them: first those that wait for none
	for r, peer := range g.peers {
		if r == g.rank {
			continue
		}
		if _, err := g.tell(peer, msg); err != nil {
			again = append(again, peer)
		}
	}
	for _, peer := range again {
		// A rank that cannot be reached is dead, or its endpoint is.
		_ = g.family.ep.SendTag(ctx, peer, revokeTag(g.id), msg, efa.Inject)
	}
}

// tell begins to tell a rank, which waits for nothing.
func (g *group) tell(peer efa.Addr, msg []byte) (*efa.Op, error) {
	return g.family.ep.Start(&efa.SendReq{
		To: peer, Buf: msg, Tagged: true, Tag: revokeTag(g.id), Level: efa.Transmitted,
	})
}

// reach is notify of a death that was found here, and reports whether another rank than the dead
// one was reached, as soon as the first was. If none was, it is this one that is cut off, or has stood
// still until all were gone. When Close has no time left, nothing is known.
func (g *group) reach(e *RankError) bool {
	msg := g.encode(e)
	ctx, cancel := g.telling()
	defer cancel()
	var asked []*efa.Op
	reached := false
	for r, peer := range g.peers {
		if r == g.rank {
			continue
		}
		op, err := g.tell(peer, msg)
		switch {
		case err != nil:
			reached = reached || ours(err) // nothing is known of it
			_ = g.family.ep.SendTag(ctx, peer, revokeTag(g.id), msg, efa.Inject)
		case r != e.Rank:
			asked = append(asked, op)
		}
	}
	return reached || g.anyOf(ctx, asked)
}

// anyOf reports whether one of several sends has reached its rank, or nothing is known of it.
func (g *group) anyOf(ctx context.Context, sends []*efa.Op) bool {
	reached := func(op *efa.Op) bool {
		_, err := op.Wait(ctx)
		return err == nil || ours(err)
	}
	if g.family.simulated() {
		return slices.ContainsFunc(sends, reached)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan bool, len(sends))
	for _, op := range sends {
		go func() {
			select {
			case <-op.Done():
				ended <- reached(op)
			case <-ctx.Done():
				ended <- true
			}
		}()
	}
	for range sends {
		if <-ended {
			return true
		}
	}
	return false
}

// The times of reach and quiesce, and of remind between two attempts.
const (
	reachTime  = 20 * time.Second
	remindTime = time.Second
)

// remind goes on telling a rank that seems to be dead until Close: it may have stood still, and
// wait for us when it goes on.
func (g *group) remind(e *RankError) {
	if g.family.simulated() { // there is no time to wait for
		return
	}
	msg := g.encode(e)
	g.reminding.Go(func() {
		for t := clock.NewTimer(remindTime); ; t.Reset(remindTime) {
			select {
			case <-g.enough.Done():
				t.Stop()
				return
			case <-t.C:
			}
			err := g.family.ep.SendTag(g.enough, g.peers[e.Rank], revokeTag(g.id), msg, efa.Complete(efa.Transmitted))
			if err == nil || errors.Is(err, efa.ErrClosed) {
				return
			}
		}
	})
}

// failed is the failure of a group whose failure is claimed, once all have been
// informed.
func (g *group) failed() error {
	if !g.family.simulated() {
		<-g.gone
	}
	return g.claim.Load()
}

// givenUp is the cause of a failure if a context ended.
func givenUp(ctx context.Context) error { return fmt.Errorf("%w: %w", ErrAborted, context.Cause(ctx)) }

func died(err error) bool { return errors.Is(err, efa.ErrPeerFailed) }

// reported reports whether another rank has found the cause.
func reported(err error) bool {
	var e *reportedError
	return errors.As(err, &e)
}

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

// Causes as a revocation has them.
const (
	causeOther = iota
	causeDied
	causeAborted
	causeMismatch
	numCauses
)

var causes = [numCauses]error{causeDied: efa.ErrPeerFailed, causeAborted: ErrAborted, causeMismatch: ErrMismatch}

// reportedError is the cause of a failure as another rank reported it.
type reportedError struct {
	text  string
	cause error
}

func (e *reportedError) Error() string { return e.text }
func (e *reportedError) Unwrap() error { return e.cause }

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
	return b[:min(len(b), revocationMost, g.family.limits.MaxInject)]
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
	return &RankError{int(rank), &reportedError{string(b[revocationHead:]), causes[cause]}}, true
}

// quiesce waits until every rank has said that it knows of the group's failure, or
// is dead. Ranks that have given this one up say it until they close, and not beyond.
func (g *group) quiesce(ctx context.Context) {
	e := g.claim.Load()
	if e.Rank == g.rank && died(e.Err) && !g.family.simulated() {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, reachTime)
		defer cancel()
	}
	for r, peer := range g.peers {
		if r == g.rank || r == g.revocations.from || r == e.Rank && died(e.Err) {
			continue
		}
		var b [revocationMost]byte
		m := efa.Match{Tag: revokeTag(g.id), Ignore: tagIgnore}
		for {
			got, err := g.family.ep.RecvTag(ctx, m, b[:], efa.From(peer))
			if _, ours := g.decode(b[:got.N]); ours || err != nil {
				break
			}
		}
	}
}

// revocationListener is a group's receive for revocations, and its listener.
type revocationListener struct {
	mu      sync.Mutex
	op      *efa.Op
	stopped bool
	deaf    signal // given when the listener has ended
	from    int    // the sender of the revocation, once deaf
	buf     [revocationMost]byte
}

// listen posts the receive.
func (g *group) listen() error {
	e := &g.revocations
	e.from = -1
	if err := e.post(g); err != nil {
		return err
	}
	if err := g.family.newSignal(&e.deaf); err != nil {
		e.op.Cancel()
		return err
	}
	g.family.spawn(func() {
		e.listen(g)
		e.deaf.set()
	})
	return nil
}

// post posts the receive, unless it is over with listening.
func (e *revocationListener) post(g *group) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	op, err := g.family.ep.Start(&efa.RecvReq{
		Tagged: true, Tag: revokeTag(g.id), Ignore: tagIgnore,
		Buf: e.buf[:],
	})
	if err != nil {
		return err
	}
	if e.op = op; e.stopped {
		op.Cancel()
	}
	return nil
}

func (e *revocationListener) listen(g *group) {
	for {
		op := e.op
		if !g.family.simulated() {
			<-op.Done()
		}
		c, err := op.Wait(context.Background())
		if err == nil {
			if told, ok := g.decode(e.buf[:c.N]); ok {
				e.from = slices.Index(g.peers, c.From)
				_ = g.fail(told)
				return
			}
			// Of an earlier group with the same id.
			if err = e.post(g); err != nil { // deaf, it could wait for ever
				_ = g.fail(&RankError{g.rank, err})
			}
		}
		if err != nil {
			return
		}
	}
}

// heardOf is the revocation that was received, whether or not the listener has run
// since.
func (e *revocationListener) heardOf(g *group) *RankError {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.op.Done():
		if c, err := e.op.Wait(context.Background()); err == nil {
			if told, ok := g.decode(e.buf[:c.N]); ok {
				return told
			}
		}
	default:
	}
	return nil
}

// cancel ends listening soon.
func (e *revocationListener) cancel() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stopped = true
	e.op.Cancel()
}

// stop ends listening, and returns when it has ended.
func (e *revocationListener) stop() {
	e.cancel()
	_ = e.deaf.wait(context.Background())
}
