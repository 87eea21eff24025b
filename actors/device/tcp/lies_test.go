//go:build linux

package tcp

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// TestLyingAnswers: a peer that answers our requests with impossible frames has its
// session ended, and our memory is left alone from then on.
func TestLyingAnswers(t *testing.T) {
	const size = 100_000
	type asked struct {
		f, lane1          *foe
		send, read, write uint64 // tokens
	}
	for name, lie := range map[string]func(*asked){
		"status on another lane": func(a *asked) { a.f.frame(frame{kind: kindStatus, status: device.StatusRNR, token: a.read}) },
		"data on another lane":   func(a *asked) { a.f.frame(frame{kind: kindData, length: size, token: a.read}) },
		"status twice": func(a *asked) {
			a.f.frame(frame{kind: kindStatus, token: a.send})
			a.f.frame(frame{kind: kindStatus, token: a.send})
		},
		"read without data":  func(a *asked) { a.lane1.frame(frame{kind: kindStatus, token: a.read}) },
		"read with too much": func(a *asked) { a.lane1.frame(frame{kind: kindData, length: size + 1, token: a.read}) },
		"read with less":     func(a *asked) { a.lane1.frame(frame{kind: kindData, length: size - 1, token: a.read}) },
		"read twice": func(a *asked) {
			a.lane1.frame(frame{kind: kindData, length: size, token: a.read}, make([]byte, size)...)
			a.lane1.frame(frame{kind: kindData, length: size, token: a.read})
		},
		"data for a packet": func(a *asked) { a.f.frame(frame{kind: kindData, length: 1, token: a.send}) },
		"write before it is there": func(a *asked) {
			a.lane1.frame(frame{kind: kindStatus, token: a.write})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, Config{}, device.QPConfig{SQDepth: 64})
			h := newHost(t, n)
			var a asked
			n.send(h.at, "x")
			a.f, a.lane1, _ = h.take()
			a.send = a.f.answer().token
			until(t, "lane 1", func() bool { return n.port().remotes[h.at].dialed.bulk().no == 1 }, n)
			post := func(kind device.WR, size int) {
				wr := n.wr(h.at)
				wr.Kind, wr.Payload, wr.RKey = kind, make([]byte, size), 1
				n.post(wr)
			}
			post(device.WRRead, size)
			p := n.port()
			for i := range p.reqs.list {
				if r := &p.reqs.list[i]; r.dst != nil {
					a.read = r.token
				}
			}
			for range 60 { // more than the sockets hold, since it is not read
				post(device.WRWrite, maxRDMA)
			}
			var end uint64
			for i := range p.reqs.list {
				if r := &p.reqs.list[i]; r.end > end { // the last
					a.write, end = r.token, r.end
				}
			}
			require.Positive(t, n.port().remotes[h.at].dialed.lanes[1].out.size)
			lie(&a)
			until(t, "the end of the session", func() bool { return n.d.Stats().Violations == 1 }, n)
			until(t, "the end of all requests", func() bool { return len(n.sends) == 62 }, n)
			for _, st := range n.sends {
				require.True(t, st.Gone() || st == device.StatusOK, st.String())
			}
		})
	}
}

// TestRegionClosedUnderWrite: bytes for a region that is closed during the transfer
// are discarded, the write is refused, and the slot for its immediate is free again.
func TestRegionClosedUnderWrite(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{RQDepth: 1})
	f := inside(t, n)
	mem := make([]byte, 100)
	mr, err := n.d.Register(mem, device.RemoteWrite)
	require.NoError(t, err)
	w := frame{kind: kindWrite, imm: true, length: 100, token: 7, qkey: 5, rkey: mr.RKey(), addr: mr.Addr()}
	f.frame(w, 1, 1, 1)
	until(t, "the beginning", func() bool { return mem[2] == 1 }, n)
	require.NoError(t, mr.Close())
	f.say(append(make([]byte, 96), 1))
	require.Equal(t, frame{kind: kindStatus, token: 7, status: device.StatusBadAddress}, f.answer())
	require.Zero(t, mem[99])
	require.Empty(t, n.wrote)
	f.works()
}

// TestWordsThenSilence: frames before the end of a connection count, and the end is
// seen, though they arrive together.
func TestWordsThenSilence(t *testing.T) {
	n := newNode(t, Config{Timeout: time.Minute}, device.QPConfig{})
	f := inside(t, n)
	f.frame(frame{kind: kindSend, length: 3, token: 1, qkey: 5}, []byte("abc")...)
	require.NoError(t, f.c.(*net.TCPConn).CloseWrite())
	took := until(t, "packet, and end", func() bool { return len(n.recvs) == 1 && n.port().acceptor.accepted == 0 }, n)
	require.Less(t, took, 30*time.Second, "it need not be asked")
}

// deaf are credentials whose streams fail to write on command.
type deaf struct{ now *bool }

type deafStream struct {
	bareStream
	now *bool
}

func (d deaf) wrap(s socket, c conn) (stream, error) { return &deafStream{bare(s, c), d.now}, nil }

func (d *deafStream) writev(b [][]byte) (int, error) {
	if *d.now {
		return 0, unix.ETIMEDOUT
	}
	return d.bareStream.writev(b)
}

// TestWriteFails: an error that only writing shows ends the session all the same.
func TestWriteFails(t *testing.T) {
	now := false
	a := newNode(t, Config{Credentials: deaf{&now}, Timeout: time.Minute}, device.QPConfig{})
	b := newNode(t, Config{Credentials: deaf{new(bool)}}, device.QPConfig{})
	require.Equal(t, device.StatusOK, a.status(a.send(b.at(), "x"), b))
	now = true
	begin := clock.System.Now()
	require.Equal(t, device.StatusUnresponsive, a.status(a.send(b.at(), "y"), b))
	require.Less(t, clock.System.Now().Sub(begin), 30*time.Second)
}
