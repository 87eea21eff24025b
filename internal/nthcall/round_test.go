//go:build linux && (amd64 || arm64)

package nthcall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

// Bounds of a round. A peer that is silent is given up after peerTimeout, so an operation
// that is still there at stepBound hangs, on a machine that is busy with other things, too.
const (
	probeAfter  = 300 * time.Millisecond
	peerTimeout = time.Second
	stepBound   = testenv.Hang / 2
)

// round is one run of the program. It stops at the first error, and closes. If that was of a moment,
// what is there must go on working: messages go both ways at once.
type round struct {
	moment bool // what fails is of a moment
	a, b   *efa.Endpoint
	toA    efa.Addr
	toB    efa.Addr
	ma, mb *efa.MemoryRegion
	errs   []stepError
}

// stepError is what a step of the program ended with.
type stepError struct {
	step string
	err  error
}

// failed keeps an error, and reports whether there is one.
func (r *round) failed(step string, err error) bool {
	if err != nil {
		r.errs = append(r.errs, stepError{step, err})
	}
	return err != nil
}

func (r *round) run(a, b efa.Setup) {
	if r.open(a, b) && r.connect() {
		mark(markTouch)
		if r.traffic(); r.moment && len(r.errs) > 0 {
			r.afterwards()
		}
	}
	r.close()
}

// afterwards is the next calls after one that has failed: a message each way, whose tags tell them
// from what came before.
func (r *round) afterwards() {
	mark(markCalm)
	ctx, cancel := context.WithTimeout(context.Background(), stepBound)
	defer cancel()
	pass := func(from *efa.Endpoint, to efa.Addr, at *efa.Endpoint, tag uint64) {
		if err := from.SendTag(ctx, to, tag, []byte("again")); err != nil {
			r.failed("afterwards", fmt.Errorf("%w: %w", errBuried, err))
			return
		}
		got := make([]byte, 8)
		m, err := at.RecvTag(ctx, efa.Match{Tag: tag}, got)
		if err != nil || string(got[:m.N]) != "again" {
			r.failed("afterwards", fmt.Errorf("%w: %w", errBuried, err))
		}
	}
	pass(r.a, r.toB, r.b, 1)
	pass(r.b, r.toA, r.a, 2)
}

func (r *round) open(a, b efa.Setup) bool {
	ctx, cancel := context.WithTimeout(context.Background(), stepBound)
	defer cancel()
	var err error
	if r.a, err = efa.OpenEndpoint(ctx, a); r.failed("open", err) {
		return false
	}
	r.b, err = efa.OpenEndpoint(ctx, b)
	return !r.failed("open", err)
}

const (
	all    = efa.AccessSend | efa.AccessRecv | efa.AccessRemoteRead | efa.AccessRemoteWrite
	memory = 2 << 20
	first  = 4 // bytes of the first message
)

func (r *round) connect() bool {
	var err error
	if r.toB, err = r.a.AddressVector().Insert(r.b.Address()); r.failed("insert", err) {
		return false
	}
	if r.toA, err = r.b.AddressVector().Insert(r.a.Address()); r.failed("insert", err) {
		return false
	}
	if r.ma, err = r.a.Domain().Alloc(memory, all); r.failed("alloc", err) {
		return false
	}
	if r.mb, err = r.b.Domain().Register(make([]byte, memory), all); r.failed("register", err) {
		return false
	}
	return true
}

// traffic is a message of each protocol both ways, a write, a read and an atomic. The first message asks
// for no answer: it is the first contact, by a packet that spends a msg_id.
func (r *round) traffic() {
	for _, n := range []int{first, 8, 30000, 200000, memory} {
		if !r.message(r.a, r.toB, r.ma, r.b, r.toA, r.mb, n) || !r.message(r.b, r.toA, r.mb, r.a, r.toB, r.ma, n) {
			return
		}
	}
	if r.oneSided(r.a, r.toB, r.mb) {
		r.oneSided(r.b, r.toA, r.ma)
	}
}

// message sends n bytes out of one region to the other.
func (r *round) message(from *efa.Endpoint, to efa.Addr, out *efa.MemoryRegion, at *efa.Endpoint, source efa.Addr, in *efa.MemoryRegion, n int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), stepBound)
	defer cancel()
	fill(out.Bytes()[:n], byte(n))
	clear(in.Bytes()[:n])
	var sent, received error
	var got efa.Message
	var wg sync.WaitGroup
	wg.Go(func() {
		level := efa.Delivered
		if n == first {
			level = efa.Transmitted
		}
		if sent = from.Send(ctx, to, out.Bytes()[:n], efa.Complete(level)); sent != nil {
			cancel() // nothing will come
		}
	})
	wg.Go(func() {
		if got, received = at.Recv(ctx, in.Bytes()[:n], efa.From(source)); received != nil {
			cancel()
		}
	})
	wg.Wait()
	if received == nil && (got.N != n || !bytes.Equal(in.Bytes()[:n], out.Bytes()[:n])) {
		received = errWrong
	}
	step := fmt.Sprintf("of %d bytes", n)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.failed("message "+step, fmt.Errorf("%w: send: %w, recv: %w", errHangs, sent, received))
		return false
	}
	// The side that was told to stop, since the other has an error, has none of its own.
	if sent == nil || !errors.Is(sent, context.Canceled) {
		r.failed("send "+step, sent)
	}
	if received == nil || !errors.Is(received, context.Canceled) {
		r.failed("recv "+step, received)
	}
	return sent == nil && received == nil
}

var (
	errWrong = errors.New("nthcall: wrong data")
	errHangs = errors.New("nthcall: no outcome")
	// errBuried: the next call fails, too.
	errBuried = errors.New("nthcall: nothing works any more")
)

func fill(p []byte, seed byte) {
	for i := range p {
		p[i] = seed + byte(i) + byte(i>>8)
	}
}

func (r *round) oneSided(ep *efa.Endpoint, to efa.Addr, there *efa.MemoryRegion) bool {
	ctx, cancel := context.WithTimeout(context.Background(), stepBound)
	defer cancel()
	for _, n := range []int{100, 300000} {
		p, q := make([]byte, n), make([]byte, n)
		fill(p, byte(n))
		m := ep.Memory(to, there.Remote())
		if err := m.Write(ctx, p, efa.Complete(efa.Delivered)); r.failed(fmt.Sprintf("write of %d bytes", n), err) {
			return false
		}
		if err := m.Read(ctx, q); r.failed(fmt.Sprintf("read of %d bytes", n), err) {
			return false
		}
		if !bytes.Equal(p, q) {
			return !r.failed("read", errWrong)
		}
	}
	at := efa.NewCell[uint64](ep.Memory(to, there.Remote().Slice(1<<20, 8)))
	before, err := at.FetchAdd(ctx, 5)
	if r.failed("atomic", err) {
		return false
	}
	after, err := at.FetchAdd(ctx, 1)
	if r.failed("atomic", err) {
		return false
	}
	return after == before+5 || !r.failed("atomic", errWrong)
}

// close closes what there is, with a second call where the first one failed.
func (r *round) close() {
	for _, m := range []*efa.MemoryRegion{r.ma, r.mb} {
		if m != nil {
			r.failed("close of memory", m.Close())
		}
	}
	for _, ep := range []*efa.Endpoint{r.a, r.b} {
		if ep != nil && r.failed("close", ep.Close()) {
			_ = ep.Close() // again: what could not be closed before
		}
	}
}
