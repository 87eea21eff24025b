//go:build linux

package tcp

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

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
