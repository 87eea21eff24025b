//go:build linux

package tcp

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/devicetest"
)

// BenchmarkOneThread: 8 bytes until both sides polled, all in one goroutine.
func BenchmarkOneThread(b *testing.B) { devicetest.Benchmark(b, factory) }

// side is one end of a pair in a benchmark.
type side struct {
	d   *attachment
	q   device.QP
	to  device.AH
	c   [32]device.Completion
	buf [32]int32
	got int // packets
	out int // sends under way
	bad device.Status
}

// poll takes completions, and posts slots again.
func (s *side) poll() {
	n := s.q.Poll(s.c[:])
	slots, k := s.buf[:], 0
	for i := range s.c[:n] {
		switch c := &s.c[i]; c.Op {
		case device.OpRecv:
			s.got++
			slots[k] = int32(c.ID)
			k++
		case device.OpSend:
			s.out--
			s.bad = max(s.bad, c.Status)
		}
	}
	if k > 0 {
		s.q.PostRecv(slots[:k])
	}
}

func pair(tb testing.TB, cfg Config) (a, b *side) {
	var s [2]*side
	for i := range s {
		d := openDevice(tb, cfg)
		q, err := d.OpenQP(device.QPConfig{QKey: 5})
		require.NoError(tb, err)
		tb.Cleanup(func() { _ = q.Close() })
		for slot := range q.RecvSlots() {
			q.PostRecv([]int32{int32(slot)})
		}
		s[i] = &side{d: d, q: q}
	}
	var err error
	s[0].to, err = s[0].q.CreateAH(s[1].d.gid)
	require.NoError(tb, err)
	s[1].to, err = s[1].q.CreateAH(s[0].d.gid)
	require.NoError(tb, err)
	return s[0], s[1]
}

func (s *side) send(tb testing.TB, to *side, data []byte) {
	require.NoError(tb, s.q.PostSend(&device.SendWR{AH: s.to, QPN: to.q.QPN(), QKey: 5, Header: data}))
	s.out++
}

// BenchmarkPingPong is half a round trip of 8 bytes between two threads that poll.
func BenchmarkPingPong(b *testing.B) {
	x, y := pair(b, Config{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		data := make([]byte, 8)
		for n := 0; n < b.N+1; {
			if y.poll(); y.got > n {
				n++
				y.send(b, x, data)
				y.q.Doorbell()
			}
		}
		for y.out > 0 {
			y.poll()
		}
		y.q.Arm()
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	data := make([]byte, 8)
	ball := func(n int) {
		x.send(b, y, data)
		x.q.Doorbell()
		for x.got < n {
			x.poll()
		}
	}
	ball(1)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		ball(i + 2)
	}
	b.StopTimer()
	x.q.Arm()
	<-done
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/half-trip")
	b.ReportMetric(0, "ns/op")
}

// polling keeps y going until the benchmark ends.
func polling(y *side) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for {
			select {
			case <-quit:
				return
			default:
				y.poll()
			}
		}
	}()
	return func() { close(quit); <-done }
}

// BenchmarkPackets is the bandwidth of packets of a size, a doorbell for each eight.
func BenchmarkPackets(b *testing.B) {
	for _, size := range []int{8, 1024, 8760} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			x, y := pair(b, Config{})
			defer polling(y)()
			data := make([]byte, size)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for i := range b.N {
				for x.out == 128 {
					x.poll()
				}
				x.send(b, y, data)
				if i%8 == 7 {
					x.q.Doorbell()
				}
			}
			x.q.Doorbell()
			for x.out > 0 {
				x.poll()
			}
			require.Equal(b, device.StatusOK, x.bad)
		})
	}
}

func BenchmarkRead(b *testing.B)  { benchRDMA(b, device.WRRead) }
func BenchmarkWrite(b *testing.B) { benchRDMA(b, device.WRWrite) }

// benchRDMA moves 16 MiB in requests of a size, eight at a time.
func benchRDMA(b *testing.B, kind device.WR) {
	const total = 16 << 20
	for _, lanes := range []int{1, 2} {
		for _, size := range []int{4 << 10, 16 << 10, 64 << 10, 256 << 10} {
			b.Run(fmt.Sprintf("lanes=%d/%dk", lanes, size>>10), func(b *testing.B) {
				x, y := pair(b, Config{Lanes: lanes})
				defer polling(y)()
				mr, err := y.d.Alloc(total, device.RemoteRead|device.RemoteWrite)
				require.NoError(b, err)
				defer mr.Close()
				own, err := x.d.Alloc(total, device.LocalWrite)
				require.NoError(b, err)
				defer own.Close()
				for i := range total {
					own.Bytes()[i], mr.Bytes()[i] = byte(i), byte(i)
				}
				wr := &device.SendWR{AH: x.to, QPN: y.q.QPN(), QKey: 5, Kind: kind, RKey: mr.RKey()}
				b.SetBytes(total)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					for off := 0; off < total; off += size {
						for x.out == 8 {
							x.poll()
						}
						wr.Payload, wr.Remote = own.Bytes()[off:off+size], mr.Addr()+uint64(off)
						require.NoError(b, x.q.PostSend(wr))
						x.out++
						x.q.Doorbell()
					}
				}
				for x.out > 0 {
					x.poll()
				}
				require.Equal(b, device.StatusOK, x.bad)
			})
		}
	}
}

// BenchmarkIdle is a Poll that finds nothing, with a session.
func BenchmarkIdle(b *testing.B) {
	x, y := pair(b, Config{})
	x.send(b, y, nil)
	for x.q.Doorbell(); x.out > 0; y.poll() {
		x.poll()
	}
	y.q.Arm()
	b.ReportAllocs()
	for b.Loop() {
		x.poll()
	}
}

// BenchmarkCross is the origin of the thresholds: a message of a size, back and forth
// between two threads, in packets that the receiver copies from its slots, or read by
// the receiver after a packet has announced it. ns/op is one way.
func BenchmarkCross(b *testing.B) {
	for _, size := range []int{16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20} {
		for _, way := range []string{"packets", "read"} {
			b.Run(fmt.Sprintf("%dk/%s", size>>10, way), func(b *testing.B) { cross(b, size, way == "read") })
		}
	}
}

// crosser is a side with a message to give and a place for one.
type crosser struct {
	*side
	b        *testing.B
	peer     *crosser
	src, dst device.MR
	size     int
	have     int
}

func cross(b *testing.B, size int, read bool) {
	x, y := pair(b, Config{})
	c := [2]*crosser{{side: x, b: b, size: size}, {side: y, b: b, size: size}}
	for i := range c {
		for _, mr := range []*device.MR{&c[i].src, &c[i].dst} {
			var err error
			*mr, err = c[i].d.Alloc(size, device.RemoteRead)
			require.NoError(b, err)
			defer func(mr device.MR) { _ = mr.Close() }(*mr)
		}
		for k := range c[i].src.Bytes() {
			c[i].src.Bytes()[k] = byte(k)
		}
		c[i].peer = c[1-i]
	}
	give, take := (*crosser).givePackets, (*crosser).takePackets
	if read {
		give, take = (*crosser).giveToken, (*crosser).takeRead
	}
	done, quit := make(chan struct{}), make(chan struct{})
	n := b.N + 1
	go func() {
		defer close(done)
		runtime.LockOSThread()
		for range n {
			take(c[1])
			give(c[1])
		}
		for {
			select {
			case <-quit: // until then it is read from
				c[1].settle()
				return
			default:
				c[1].poll()
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	give(c[0])
	take(c[0])
	b.SetBytes(int64(size))
	b.ResetTimer()
	for range b.N {
		give(c[0])
		take(c[0])
	}
	b.StopTimer()
	c[0].settle()
	close(quit)
	<-done
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/op")
}

func (c *crosser) settle() {
	for c.out > 0 {
		c.poll()
	}
	c.q.Arm()
	require.Equal(c.b, device.StatusOK, c.bad)
}

// givePackets sends the message, with room for a header in each packet.
func (c *crosser) givePackets() {
	const part = DefaultMTU - 100
	for off := 0; off < c.size; off += part {
		for c.out >= 250 {
			c.take()
		}
		c.send(c.b, c.peer.side, c.src.Bytes()[off:min(off+part, c.size)])
	}
	c.q.Doorbell()
}

// take polls and copies packets from their slots.
func (c *crosser) take() {
	n := c.q.Poll(c.c[:])
	k := 0
	for i := range c.c[:n] {
		e := &c.c[i]
		if e.Op == device.OpSend {
			c.out--
			c.bad = max(c.bad, e.Status)
			continue
		}
		c.have += copy(c.dst.Bytes()[c.have%c.size:], c.q.RecvBytes(int(e.ID))[:e.Len])
		c.buf[k] = int32(e.ID)
		k++
	}
	c.q.PostRecv(c.buf[:k])
}

func (c *crosser) takePackets() {
	for c.have < c.size {
		c.take()
	}
	c.have -= c.size
}

// giveToken announces the message, and waits as its owner would for the report that it
// was read, which is the answer here.
func (c *crosser) giveToken() {
	c.send(c.b, c.peer.side, make([]byte, 8))
	c.q.Doorbell()
}

func (c *crosser) takeRead() {
	for c.have++; c.got < c.have; {
		c.poll()
	}
	before := c.out
	for off := 0; off < c.size; off += maxRDMA {
		n := min(maxRDMA, c.size-off)
		require.NoError(c.b, c.q.PostSend(&device.SendWR{
			AH: c.to, QPN: c.peer.q.QPN(), QKey: 5, Kind: device.WRRead, Payload: c.dst.Bytes()[off : off+n],
			RKey: c.peer.src.RKey(), Remote: c.peer.src.Addr() + uint64(off),
		}))
		c.out++
	}
	c.q.Doorbell()
	for c.out > before {
		c.poll()
	}
}
