package efa_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// BenchmarkStream is what a stream of posted messages costs each: a window of sends,
// receives that are posted again at once, completions read in batches, a request per call.
//
//   - shm: from one shard to another, in two goroutines. For a profile of one side alone
//     there is bench/stream, which has two processes.
//   - sim: both endpoints on one shard, which the benchmark's goroutine runs.
//   - later: the same on a device that does not know at post whether a packet arrived.
//   - alone: as shm, by one goroutine: what the software costs of both sides together, with no
//     line to wait for.
func BenchmarkStream(b *testing.B) {
	for _, on := range []struct {
		name string
		open func(b *testing.B) (from, to *streamEnd)
	}{{"shm", streamShm}, {"sim", streamSim}, {"later", streamLater}, {"alone", streamShm}} {
		for _, size := range []int{8, 4096, 65536} {
			for _, window := range []int{1, 64} {
				if window == 1 && size != 8 {
					continue
				}
				b.Run(fmt.Sprintf("%s/size=%d/window=%d", on.name, size, window), func(b *testing.B) {
					from, to := on.open(b)
					from.lend(size, window)
					to.lend(size, window)
					run := streamBeside
					if on.name == "alone" {
						run = streamInTurns
					}
					benchmarkStream(b, from, to, window, run)
				})
			}
		}
	}
}

// benchmarkStream has b.N messages go between two ends, which may be one.
func benchmarkStream(b *testing.B, from, to *streamEnd, window int, stream func(b *testing.B, from, to *streamEnd, n int)) {
	for _, s := range to.in {
		require.NoError(b, to.post(s))
	}
	stream(b, from, to, 100*window)
	b.SetBytes(int64(len(to.in[0].buf)))
	b.ReportAllocs()
	b.ResetTimer()
	stream(b, from, to, b.N)
	b.StopTimer()
}

// streamBeside has n messages go from one goroutine to another, or within one end.
func streamBeside(b *testing.B, from, to *streamEnd, n int) {
	if from == to {
		require.NoError(b, from.run(n, n))
		return
	}
	done := make(chan error, 1)
	go func() { done <- to.run(0, n) }()
	require.NoError(b, from.run(n, 0))
	require.NoError(b, <-done)
}

// streamInTurns has n messages go a window at a time: all are sent, then all are received.
func streamInTurns(b *testing.B, from, to *streamEnd, n int) {
	for n > 0 {
		some := min(n, len(from.out))
		if err := errors.Join(from.run(some, 0), to.run(0, some)); err != nil {
			b.Fatal(err)
		}
		n -= some
	}
}

// streamEnd sends, receives, or both, and has one queue for it.
type streamEnd struct {
	from, at *efa.Endpoint // at receives
	peer     efa.Addr
	q        *efa.Queue
	slots    []*streamSlot // all, by token
	out, in  []*streamSlot // out is free
	cs       [64]efa.Completion
}

// streamSlot is a buffer that an operation may have; its index is the operation's token.
type streamSlot struct {
	buf []byte
	id  uint64
}

// lend gives the end its buffers.
func (e *streamEnd) lend(size, window int) {
	for len(e.in) < window {
		e.out = append(e.out, e.slot(size))
		e.in = append(e.in, e.slot(size))
	}
}

func (e *streamEnd) slot(size int) *streamSlot {
	s := &streamSlot{make([]byte, size), uint64(len(e.slots))}
	e.slots = append(e.slots, s)
	return s
}

func (e *streamEnd) post(s *streamSlot) error {
	_, err := e.at.PostRecv(&efa.RecvReq{Buf: s.buf, Token: s.id})
	return err
}

// run returns when so many sends are over and so many messages have come.
func (e *streamEnd) run(sends, recvs int) error {
	for left := sends; sends > 0 || recvs > 0; {
		for ; left > 0 && len(e.out) > 0; left-- {
			s := e.out[len(e.out)-1]
			_, err := e.from.PostSend(&efa.SendReq{To: e.peer, Buf: s.buf, Token: s.id})
			if errors.Is(err, efa.ErrAgain) {
				break
			}
			if err != nil {
				return err
			}
			e.out = e.out[:len(e.out)-1]
		}
		n, err := e.q.Read(context.Background(), e.cs[:])
		if err != nil {
			return err
		}
		for i := range e.cs[:n] {
			c := &e.cs[i]
			s := e.slots[c.Token]
			switch {
			case c.Err != nil:
				return c.Err
			case c.Kind == efa.Sent:
				e.out = append(e.out, s)
				sends--
			default:
				if err := e.post(s); err != nil {
					return err
				}
				recvs--
			}
		}
	}
	return nil
}

// streamShm makes two ends on shards of their own.
func streamShm(b *testing.B) (from, to *streamEnd) {
	dir := b.TempDir()
	require.NoError(b, os.Chmod(dir, 0o700))
	var ends [2]*streamEnd
	var avs [2]*efa.AddressVector
	for i := range ends {
		dev, err := shm.Open(shm.Config{Dir: dir})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, dev.Close()) })
		dom := openBench(b, dev)
		avs[i] = dom.NewAddressVector()
		ends[i] = &streamEnd{q: newQueue(b, dom, 256)}
		ends[i].from = newBenchEndpoint(b, dom, avs[i], ends[i].q)
		ends[i].at = ends[i].from
	}
	var err error
	ends[0].peer, err = avs[0].Insert(ends[1].at.Address())
	require.NoError(b, err)
	return ends[0], ends[1]
}

func streamSim(b *testing.B) (from, to *streamEnd) {
	return streamOne(b, newDevice(b, newFabric(b, sim.Config{InOrder: true})))
}

func streamLater(b *testing.B) (from, to *streamEnd) {
	return streamOne(b, later{newDevice(b, newFabric(b, sim.Config{InOrder: true}))})
}

// streamOne makes both ends as one, with two endpoints on one shard.
func streamOne(b *testing.B, dev efa.Device) (from, to *streamEnd) {
	dom := openBench(b, dev)
	e := &streamEnd{q: newQueue(b, dom, 256)}
	av := dom.NewAddressVector()
	e.from = newBenchEndpoint(b, dom, av, e.q)
	e.at = newBenchEndpoint(b, dom, av, e.q)
	var err error
	e.peer, err = av.Insert(e.at.Address())
	require.NoError(b, err)
	return e, e
}

// openBench opens a domain with manual progress.
func openBench(b *testing.B, dev efa.Device) *efa.Domain {
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, fab.Close()) })
	dom, err := fab.OpenDomain(efa.DomainConfig{Progress: efa.ProgressManual})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, dom.Close()) })
	return dom
}

func newBenchEndpoint(b *testing.B, dom *efa.Domain, av *efa.AddressVector, q *efa.Queue) *efa.Endpoint {
	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av, SendQueue: q, RecvQueue: q})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, ep.Close()) })
	require.NoError(b, ep.Enable(context.Background()))
	return ep
}
