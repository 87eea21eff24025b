package efa_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/runtime/clock"
)

// telemetries are what BenchmarkEager runs with: nothing; records that become spans of
// all messages, or of one in a thousand; metrics alone.
var telemetries = []struct {
	name string
	make func() efa.Telemetry
}{
	{"off", func() efa.Telemetry { return efa.Telemetry{} }},
	{"on", func() efa.Telemetry { return efa.Telemetry{TracerProvider: sdktrace.NewTracerProvider()} }},
	{"sampled", func() efa.Telemetry {
		return efa.Telemetry{TracerProvider: sdktrace.NewTracerProvider(), Ratio: 0.001}
	}},
	{"metrics", func() efa.Telemetry {
		return efa.Telemetry{MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))}
	}},
}

// BenchmarkEager sends and receives one message per iteration, both endpoints on
// one shard that the benchmark's goroutine runs. Queued, every message between actors goes
// through the shard's ring, where otherwise none does.
func BenchmarkEager(b *testing.B) {
	for _, t := range telemetries {
		for _, size := range []int{8, 4096} {
			if size != 8 && t.name != "off" {
				continue
			}
			b.Run(fmt.Sprintf("trace=%s/size=%d", t.name, size), func(b *testing.B) {
				dev := newDevice(b, newFabric(b, sim.Config{InOrder: true}))
				benchmarkEager(b, dev, size, t.make(), false)
			})
		}
	}
	b.Run("queued/size=8", func(b *testing.B) {
		benchmarkEager(b, newDevice(b, newFabric(b, sim.Config{InOrder: true})), 8, efa.Telemetry{}, true)
	})
}

func benchmarkEager(b *testing.B, dev efa.Device, size int, t efa.Telemetry, queued bool) {
	fab, err := efa.Open(efa.Config{Device: dev, Telemetry: t})
	require.NoError(b, err)
	dom, err := fab.OpenDomain(efa.DomainConfig{Progress: efa.ProgressManual})
	require.NoError(b, err)
	if queued {
		dom.QueueAll()
	}
	q, err := dom.NewQueue(64)
	require.NoError(b, err)
	av := dom.NewAddressVector()
	cfg := efa.EndpointConfig{AV: av, SendQueue: q, RecvQueue: q}
	x, err := dom.NewEndpoint(cfg)
	require.NoError(b, err)
	y, err := dom.NewEndpoint(cfg)
	require.NoError(b, err)
	require.NoError(b, x.Enable(context.Background()))
	require.NoError(b, y.Enable(context.Background()))
	to, err := av.Insert(y.Address())
	require.NoError(b, err)
	src, dst := make([]byte, size), make([]byte, size)
	var cs [8]efa.Completion
	send := efa.SendReq{To: to, Buf: src}
	recv := efa.RecvReq{Buf: dst}
	one := func() {
		if _, err := y.PostRecv(&recv); err != nil {
			b.Fatal(err)
		}
		if _, err := x.PostSend(&send); err != nil {
			b.Fatal(err)
		}
		for n := 0; n < 2; {
			n += q.TryRead(cs[:])
		}
	}
	for range 100 {
		one()
	}
	b.ReportAllocs()
	b.SetBytes(int64(size))
	for b.Loop() {
		one()
	}
	b.StopTimer()
	require.NoError(b, x.Close())
	require.NoError(b, y.Close())
	require.NoError(b, dom.Close())
	require.NoError(b, fab.Close())
}

// later is a device that reports every send by a completion, as EFA does, also where it
// knows at post that the packet has arrived.
type later struct{ efa.Device }

// OpenQP implements device.Device.
func (d later) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := d.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	return laterQP{qp}, nil
}

type laterQP struct{ device.QP }

// PostSend implements device.QP.
func (q laterQP) PostSend(wr *device.SendWR) error {
	prompt := wr.Prompt
	wr.Prompt = false
	err := q.QP.PostSend(wr)
	wr.Prompt = prompt
	return err
}

// BenchmarkEagerLater is BenchmarkEager's 8 bytes on a device whose completions come later:
// what an acknowledged eager message costs on one like EFA. BenchmarkEager is on one that
// knows at post.
func BenchmarkEagerLater(b *testing.B) {
	dev := later{newDevice(b, newFabric(b, sim.Config{InOrder: true}))}
	benchmarkEager(b, dev, 8, efa.Telemetry{}, false)
}

// BenchmarkLists writes 256 blocks to scattered places of a peer's memory, by one call and by
// 256 calls, through shared memory.
func BenchmarkLists(b *testing.B) {
	const blocks = 256
	for _, size := range []int{64, 4096} {
		for _, calls := range []int{1, blocks} {
			b.Run(fmt.Sprintf("block=%d/calls=%d", size, calls), func(b *testing.B) {
				x, y := lab{shm: true, mode: efa.ProgressManual, depth: 512}.open(b)
				there, here := alloc(b, y, 2*blocks*size, remote), alloc(b, x, 2*blocks*size, 0).Bytes()
				var at []efa.Remote
				var from [][]byte
				for i := range blocks {
					at = append(at, there.Remote().Slice(uint64((blocks-i)*2*size-size), uint64(size)))
					from = append(from, here[2*i*size:][:size])
				}
				ctx := context.Background()
				cs := make([]efa.Completion, blocks)
				b.ReportAllocs()
				b.SetBytes(int64(blocks * size))
				one := func() {
					if calls == 1 {
						_, err := x.ep.PostWrite(&efa.WriteReq{To: x.peer, Ats: at, Bufs: from, Level: efa.Delivered})
						require.NoError(b, err)
					} else {
						for i := range blocks {
							_, err := x.ep.PostWrite(&efa.WriteReq{To: x.peer, At: at[i], Buf: from[i], Level: efa.Delivered})
							require.NoError(b, err)
						}
					}
					for left := calls; left > 0; {
						n, err := x.ep.SendQueue().Read(ctx, cs[:left])
						require.NoError(b, err)
						left -= n
					}
				}
				one()
				b.ResetTimer()
				for range b.N {
					one()
				}
			})
		}
	}
}

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

// exchangeEnv makes the child of BenchmarkExchange of the test binary.
const exchangeEnv = "EFACTOR_TEST_EXCHANGE"

const exchangeSize = 8

// exchange is one round: each side sends 8 bytes, then waits for the other's.
type exchange struct {
	ep  *efa.Endpoint
	to  efa.Addr
	out [exchangeSize]byte
	in  [exchangeSize]byte
}

func (x *exchange) round(ctx context.Context) error {
	if err := x.send(ctx); err != nil {
		return err
	}
	return x.recv(ctx)
}

func (x *exchange) send(ctx context.Context) error {
	return x.ep.SendTag(ctx, x.to, 1, x.out[:], efa.Inject)
}

func (x *exchange) recv(ctx context.Context) error {
	_, err := x.ep.RecvTag(ctx, efa.Match{Tag: 1}, x.in[:], efa.From(x.to))
	return err
}

// exchangeChild plays rounds until the parent says that it has had the last.
func exchangeChild(dir string) error {
	ep, parent, err := childOf(dir, efa.DomainConfig{Progress: efa.ProgressManual})
	if err != nil {
		return err
	}
	x := exchange{ep: ep, to: parent}
	for x.in[0] == 0 {
		if err := x.round(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkExchange has two processes swap 8 bytes over shared memory: what a step of
// a collective between two ranks costs. best-ns is that of the fastest 200 rounds in a
// row, which others that use the machine did not disturb.
func BenchmarkExchange(b *testing.B) {
	dir := b.TempDir()
	require.NoError(b, os.Chmod(dir, 0o700))
	dev, err := shm.Open(shm.Config{Dir: dir})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, dev.Close()) })
	me := open(b, dev, efa.DomainConfig{Progress: efa.ProgressManual})
	cmd, addr := startChild(b, dir, me.ep.Address(), exchangeEnv+"=1")
	to, err := me.av.Insert(addr)
	require.NoError(b, err)
	x := exchange{ep: me.ep, to: to}
	ctx := context.Background()
	for range 1000 {
		require.NoError(b, x.round(ctx))
	}
	const batch = 200
	best := time.Duration(math.MaxInt64)
	b.ReportAllocs()
	b.ResetTimer()
	began := clock.System.Now()
	for i := 1; i <= b.N; i++ {
		if err := x.round(ctx); err != nil {
			b.Fatal(err)
		}
		if i%batch == 0 {
			now := clock.System.Now()
			best, began = min(best, now.Sub(began)), now
		}
	}
	b.StopTimer()
	if b.N >= batch {
		b.ReportMetric(float64(best)/batch, "best-ns")
	}
	x.out[0] = 1
	require.NoError(b, x.round(ctx))
	require.NoError(b, cmd.Wait())
}

// BenchmarkExchangeAlone has one goroutine play both sides, each with a shard of its
// own: what the software costs of BenchmarkExchange, twice, with no line to wait for.
func BenchmarkExchangeAlone(b *testing.B) {
	dir := b.TempDir()
	require.NoError(b, os.Chmod(dir, 0o700))
	dev, err := shm.Open(shm.Config{Dir: dir})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, dev.Close()) })
	var sides [2]*side
	for i := range sides {
		sides[i] = open(b, dev, efa.DomainConfig{Progress: efa.ProgressManual})
	}
	var x [2]exchange
	for i, s := range sides {
		to, err := s.av.Insert(sides[1-i].ep.Address())
		require.NoError(b, err)
		x[i] = exchange{ep: s.ep, to: to}
	}
	ctx := context.Background()
	b.ReportAllocs()
	for b.Loop() {
		for i := range x {
			if err := x[i].send(ctx); err != nil {
				b.Fatal(err)
			}
		}
		for i := range x {
			if err := x[i].recv(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func TestServeAndResolve(t *testing.T) {
	a, b := newPair(t, efa.DomainConfig{})
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		return l
	}
	l := listen()
	ctx, stop := context.WithCancel(testContext(t))
	served := make(chan error, 1)
	go func() { served <- a.ep.Serve(ctx, l) }()
	for range 2 {
		h, err := b.av.Resolve(ctx, l.Addr().String())
		require.NoError(t, err)
		require.Equal(t, b.peer, h)
	}
	stop()
	require.NoError(t, <-served)
	_, err := b.av.Resolve(testContext(t), l.Addr().String())
	require.Error(t, err)
	_, err = b.av.Resolve(ctx, l.Addr().String())
	require.ErrorIs(t, err, context.Canceled)

	// Others than Serve: garbage, an endless line, silence.
	for _, answer := range []string{"", "hello\n", "sim://[::1]:1:2", "shm://[::1]:1:2\n"} {
		l := listen()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, answer) // what arrives is tested
			_ = c.Close()
		}()
		_, err := b.av.Resolve(testContext(t), l.Addr().String())
		require.Error(t, err, "%q", answer)
		require.NoError(t, l.Close())
	}
	l = listen()
	defer l.Close()
	ctx, stop = context.WithCancel(context.Background())
	go func() {
		c, err := l.Accept()
		stop()
		if err == nil {
			defer c.Close()
			_, _ = c.Read(make([]byte, 1)) // until the other gives up
		}
	}()
	_, err = b.av.Resolve(ctx, l.Addr().String())
	require.ErrorIs(t, err, context.Canceled)

	require.NoError(t, a.ep.Close())
	l2 := listen()
	go func() { served <- a.ep.Serve(testContext(t), l2) }()
	_, err = b.av.Resolve(testContext(t), l2.Addr().String())
	require.Error(t, err)
	require.ErrorIs(t, <-served, efa.ErrClosed)
}

// TestEventBacklog: the latest events are kept, and the number of those that were not is reported.
func TestEventBacklog(t *testing.T) {
	f := newFabric(t, sim.Config{InOrder: true})
	dom := openDomain(t, f, efa.DomainConfig{})
	busy := newEndpoint(t, dom, efa.EndpointConfig{EventBacklog: 2})
	ctx := testContext(t)
	var last efa.Address
	for range 5 {
		s := newEndpoint(t, dom, efa.EndpointConfig{})
		to, err := s.av.Insert(busy.ep.Address())
		require.NoError(t, err)
		op, err := s.ep.Start(&efa.SendReq{To: to})
		require.NoError(t, err)
		_, err = busy.ep.Recv(ctx, nil)
		require.NoError(t, err)
		_, err = op.Wait(ctx)
		require.NoError(t, err)
		last = s.ep.Address()
	}
	var lost []uint64
	for len(lost) < 2 {
		ev, err := busy.ep.NextEvent(ctx)
		require.NoError(t, err)
		require.Equal(t, efa.NewPeer, ev.Kind)
		if lost = append(lost, ev.Lost); len(lost) == 2 {
			require.True(t, last.Equal(ev.Address))
		}
	}
	require.Equal(t, []uint64{3, 0}, lost)
	_, ok := busy.ep.TryEvent()
	require.False(t, ok)
	short, cancel := context.WithCancel(ctx)
	cancel()
	_, err := busy.ep.NextEvent(short)
	require.ErrorIs(t, err, efa.ErrCanceled)
}
