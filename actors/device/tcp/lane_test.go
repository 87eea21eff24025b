//go:build linux

package tcp

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// foe speaks the protocol by hand on a connection to a queue pair.
type foe struct {
	t    *testing.T
	n    *node
	c    net.Conn
	at   address // the address that it claims
	in   []byte
	eof  bool
	next uint64

	greeted bool // by the queue pair, or it by us
}

// newFoe connects from a host of its own, or from where another foe came from.
func newFoe(t *testing.T, n *node, like *foe) *foe {
	t.Helper()
	f := &foe{t: t, n: n, next: 100}
	if like != nil {
		f.at = like.at
	} else {
		f.at = address{GIDOf(nextHost()), 7777}
	}
	to := n.at()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: AddrOf(f.at.gid).AsSlice()}}
	var err error
	f.c, err = d.Dial("tcp", (&net.TCPAddr{IP: AddrOf(to.gid).AsSlice(), Port: int(to.qpn)}).String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.c.Close() })
	return f
}

// hello is his preamble.
func (f *foe) hello() preamble {
	return preamble{session: 1001, mtu: DefaultMTU, lanes: 1, from: f.at, to: f.n.at(), keyed: true, qkey: 9}
}

func (f *foe) say(b []byte) {
	f.t.Helper()
	_, err := f.c.Write(b)
	require.NoError(f.t, err)
}

func (f *foe) frame(fr frame, more ...byte) {
	f.t.Helper()
	f.say(append(fr.appendTo(nil), more...))
}

// hear reads the available bytes.
func (f *foe) hear() {
	_ = f.c.SetReadDeadline(clock.Deadline(time.Millisecond))
	b := make([]byte, 1<<16)
	n, err := f.c.Read(b)
	f.in = append(f.in, b[:n]...)
	if !f.greeted && len(f.in) >= greetingLen && f.n.d.cfg.Credentials == nil {
		v, err := parseGreeting(f.in[:greetingLen])
		require.NoError(f.t, err)
		require.Equal(f.t, taken, v)
		f.in, f.greeted = f.in[greetingLen:], true
	}
	if ne, ok := err.(net.Error); err != nil && (!ok || !ne.Timeout()) { //nolint:errorlint // as net returns it
		f.eof = true
	}
}

// want waits for n bytes.
func (f *foe) want(n int) []byte {
	f.t.Helper()
	until(f.t, "bytes for the foe", func() bool { f.hear(); return len(f.in) >= n }, f.n)
	b := f.in[:n:n]
	f.in = f.in[n:]
	return b
}

// answer waits for a frame.
func (f *foe) answer() (fr frame) {
	f.t.Helper()
	head := f.want(baseLen)
	more := f.want(int(headerLen[head[0]]) - baseLen)
	_, err := fr.parse(append(head, more...), DefaultMTU)
	require.NoError(f.t, err)
	return fr
}

// closed waits until the queue pair has closed the connection.
func (f *foe) closed() {
	f.t.Helper()
	until(f.t, "that the connection is closed", func() bool { f.hear(); return f.eof }, f.n)
}

// reply says a preamble and returns the reply to it.
func (f *foe) reply(p preamble) (r preamble) {
	f.t.Helper()
	f.say(p.appendTo(nil))
	require.NoError(f.t, r.parse(f.want(preambleLen)))
	require.True(f.t, r.reply)
	return r
}

// inside is a foe with a session.
func inside(t *testing.T, n *node) *foe {
	t.Helper()
	f := newFoe(t, n, nil)
	r := f.reply(f.hello())
	require.Equal(t, preamble{
		reply: true, lanes: 1, mtu: DefaultMTU, session: 1001, from: n.at(), to: f.at, keyed: true, qkey: 5,
	}, r)
	return f
}

// works sends a packet and expects it to arrive.
func (f *foe) works() {
	f.t.Helper()
	f.next++
	have := len(f.n.recvs)
	f.frame(frame{kind: kindSend, length: 3, token: f.next, qkey: 5}, []byte("abc")...)
	require.Equal(f.t, frame{kind: kindStatus, token: f.next}, f.answer())
	until(f.t, "arrival", func() bool { return len(f.n.recvs) == have+1 }, f.n)
	require.Equal(f.t, "abc", string(f.n.recvs[have]))
	require.Equal(f.t, f.at.qpn, f.n.from[have].SrcQPN)
	if c := &f.n.from[have]; c.AH == device.UnknownAH {
		require.Equal(f.t, f.at.gid, c.SrcGID)
	}
}

func TestPreamblesRefused(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	for name, c := range map[string]struct {
		change func(*preamble)
		want   verdict
	}{
		"another port":       {func(p *preamble) { p.to.qpn++ }, wrongPlace},
		"another host":       {func(p *preamble) { p.to.gid[15]++ }, wrongPlace},
		"another mtu":        {func(p *preamble) { p.mtu-- }, wrongMTU},
		"another's address":  {func(p *preamble) { p.from.gid[15]++ }, wrongPeer},
		"lane of no session": {func(p *preamble) { p.lane = 1 }, wrongSession},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFoe(t, n, nil)
			p := f.hello()
			c.change(&p)
			require.Equal(t, c.want, f.reply(p).verdict)
			f.closed()
			require.Empty(t, f.in)
		})
	}
	t.Run("another version", func(t *testing.T) {
		f := newFoe(t, n, nil)
		p := f.hello()
		b := p.appendTo(nil)
		b[4]++
		f.say(b)
		var r preamble
		require.NoError(t, r.parseLoose(f.want(preambleLen)))
		require.Equal(t, wrongVersion, r.verdict)
		f.closed()
	})
	require.EqualValues(t, 6, n.d.Stats().Refused)
	for name, b := range map[string][]byte{
		"http":  append([]byte("GET / HTTP/1.1\r\nHost: efactor\r\n\r\n"), make([]byte, 80)...),
		"reply": (&preamble{reply: true, session: 1, from: address{qpn: 1}, to: address{qpn: 1}}).appendTo(nil),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFoe(t, n, nil)
			f.say(b)
			f.closed()
			require.Empty(t, f.in)
		})
	}
	require.EqualValues(t, 2, n.d.Stats().Strangers)
	inside(t, n).works()
}

// parseLoose reads the reply to a version that the other side does not know, in which
// there is nothing but the verdict.
func (p *preamble) parseLoose(b []byte) error {
	b[16], b[56], b[58] = 1, 1, 1
	return p.parse(b)
}

// TestViolations: impossible frames end the session, are counted, and affect no
// other.
func TestViolations(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	good := inside(t, n)
	good.works()
	mr, err := n.d.Alloc(100, device.RemoteRead|device.RemoteWrite)
	require.NoError(t, err)
	defer mr.Close()
	cases := []struct {
		name string
		b    []byte
	}{
		{"no such kind", make([]byte, baseLen)},
		{"status of nothing", (&frame{kind: kindStatus, token: 1}).appendTo(nil)},
		{"status of another's", (&frame{kind: kindStatus, token: 1 << 40}).appendTo(nil)},
		{"data of nothing", (&frame{kind: kindData, token: 1, length: 5}).appendTo(nil)},
		{"length of a packet", (&frame{kind: kindSend, length: DefaultMTU + 1, qkey: 5}).appendTo(nil)},
		{"length of a write", (&frame{kind: kindWrite, length: maxRDMA + 1, qkey: 5}).appendTo(nil)},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := inside(t, n)
			f.works()
			f.say(c.b)
			f.closed()
			require.EqualValues(t, i+1, n.d.Stats().Violations)
			good.works()
		})
	}
	require.Empty(t, n.gone)
}

// TestHalfFrames: a frame that comes in parts is taken when it is whole, one that never
// is leaves nothing behind: neither a packet nor a slot that is gone.
func TestHalfFrames(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{RQDepth: 2})
	mr, err := n.d.Alloc(100, device.RemoteWrite)
	require.NoError(t, err)
	defer mr.Close()
	send := (&frame{kind: kindSend, length: 4, token: 1, qkey: 5}).appendTo(nil)
	write := frame{kind: kindWrite, imm: true, length: 50, token: 2, qkey: 5, rkey: mr.RKey(), addr: mr.Addr(), data: 3}
	whole := append(send, "abcd"...)
	whole = append(write.appendTo(whole), make([]byte, 50)...)
	for cut := range whole {
		f := inside(t, n)
		f.say(whole[:cut])
		until(t, "that it was read", func() bool { return n.port().unread() == 0 }, n)
		require.NoError(t, f.c.Close())
		until(t, "the end of the session", func() bool { return n.port().acceptor.accepted == 0 }, n)
		require.Len(t, n.recvs, min(cut/(sendLen+4), 1))
		require.Empty(t, n.wrote)
		in := &n.port().inbox
		require.EqualValues(t, 2, in.tail-in.head, "posted slots")
		n.recvs = nil
	}
	f := inside(t, n)
	for _, b := range whole {
		f.say([]byte{b})
		n.poll()
	}
	require.Equal(t, frame{kind: kindStatus, token: 1}, f.answer())
	require.Equal(t, frame{kind: kindStatus, token: 2}, f.answer())
	until(t, "write", func() bool { return len(n.recvs) == 1 && len(n.wrote) == 1 }, n)
	require.Equal(t, 50, n.wrote[0].Len)
}

// TestPlaced: a payload is read into its place, wherever the bytes are cut. If the connection ends in between, nothing
// has come; if the place is lost, the sender hears that the packet is to be sent again.
func TestPlaced(t *testing.T) {
	const head, size = 40, 20_000
	data := bytes.Repeat([]byte("placed"), size)[:size]
	for name, end := range map[string]func(*testing.T, *foe, frame, int){
		"whole": func(t *testing.T, f *foe, fr frame, cut int) {
			f.say(data[cut:])
			require.Equal(t, frame{kind: kindStatus, token: fr.token}, f.answer())
			until(t, "arrival", func() bool { return len(f.n.recvs) == 1 }, f.n)
			require.Equal(t, device.OpPlaced, f.n.from[0].Op)
			require.Equal(t, size, f.n.from[0].Len)
			require.Equal(t, data[:head], f.n.recvs[0])
			require.Equal(t, data[head:], f.n.place)
		},
		"broken": func(t *testing.T, f *foe, _ frame, _ int) {
			require.NoError(t, f.c.Close())
			until(t, "the end of the session", func() bool { return f.n.port().acceptor.accepted == 0 }, f.n)
			require.Empty(t, f.n.recvs)
		},
		"lost": func(t *testing.T, f *foe, fr frame, cut int) {
			was := f.n.place
			f.n.place = nil
			f.say(data[cut:])
			want := frame{kind: kindStatus, token: fr.token, status: device.StatusRNR}
			if cut < mostHead {
				want.status = device.StatusOK // it was not asked for before
			}
			require.Equal(t, want, f.answer())
			if cut >= mostHead {
				require.Equal(t, make([]byte, size-cut), was[cut-head:])
				require.Empty(t, f.n.recvs)
				f.frame(fr, data...)
				require.Equal(t, frame{kind: kindStatus, token: fr.token}, f.answer())
			}
			until(t, "arrival", func() bool { return len(f.n.recvs) == 1 }, f.n)
			require.Equal(t, data, f.n.recvs[0])
		},
	} {
		for _, cut := range []int{0, head, mostHead - 1, mostHead, 5000, size - 1} {
			t.Run(fmt.Sprint(name, cut), func(t *testing.T) {
				var n *node
				n = newNode(t, Config{MTU: size}, device.QPConfig{RQDepth: 2, Place: func(_ device.AH, _ uint16, b []byte, all int) ([]byte, bool) {
					require.Equal(t, size, all)
					require.Equal(t, data[:head], b[:head])
					return n.place, false
				}})
				n.place = make([]byte, size-head)
				f := newFoe(t, n, nil)
				_, err := n.q.CreateAH(f.at.gid)
				require.NoError(t, err)
				hello := f.hello()
				hello.mtu = size
				f.reply(hello)
				fr := frame{kind: kindSend, length: size, token: 1, qkey: 5}
				f.frame(fr, data[:cut]...)
				until(t, "that it was read", func() bool { return n.port().unread() == 0 }, n)
				end(t, f, fr, cut)
				in := &n.port().inbox
				require.EqualValues(t, 2, in.tail-in.head, "posted slots")
			})
		}
	}
}

// TestPlacedLater: a packet that is to wait until the one before it was polled is asked for again then, once.
func TestPlacedLater(t *testing.T) {
	const head, size = 40, 3000
	asked, place := 0, make([]byte, size-head)
	n := newNode(t, Config{}, device.QPConfig{Place: func(_ device.AH, _ uint16, b []byte, _ int) (dst []byte, later bool) {
		switch b[0] {
		case 1:
			return nil, true // there is nothing to wait for
		case 2:
			if asked++; asked == 1 {
				return nil, true
			}
			return place, false
		}
		return nil, false
	}})
	f := inside(t, n)
	_, err := n.q.CreateAH(f.at.gid)
	require.NoError(t, err)
	var both []byte
	for token := range byte(2) {
		fr := frame{kind: kindSend, length: size, token: uint64(token), qkey: 5}
		both = append(fr.appendTo(both), bytes.Repeat([]byte{token + 1}, size)...)
	}
	f.say(both)
	until(t, "arrivals", func() bool { return len(n.recvs) == 2 }, n)
	require.Equal(t, device.OpRecv, n.from[0].Op)
	require.Equal(t, device.OpPlaced, n.from[1].Op)
	require.Equal(t, bytes.Repeat([]byte{2}, size-head), place)
	require.Equal(t, 2, asked-1, "for each part of the bytes once more")
}

// unread is how much the kernel has for us.
func (p *port) unread() int {
	total := 0
	for _, c := range p.conns {
		if c.l != nil && c.l.st != nil {
			total += pending(c.l.st)
		}
	}
	return total
}

// TestQueueOfAnswersBounded: the session of a peer that asks and does not read is
// ended before its answers fill the memory.
func TestQueueOfAnswersBounded(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{SQDepth: 16})
	mr, err := n.d.Alloc(maxRDMA, device.RemoteRead)
	require.NoError(t, err)
	defer mr.Close()
	f := inside(t, n)
	read := (&frame{kind: kindRead, length: maxRDMA, qkey: 5, rkey: mr.RKey(), addr: mr.Addr()}).appendTo(nil)
	var lots []byte
	for range 1000 {
		lots = append(lots, read...)
	}
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := f.c.Write(lots); err != nil {
				done <- err
				return
			}
		}
	}()
	until(t, "that it is thrown out", func() bool { return n.d.Stats().Violations == 1 }, n)
	require.Error(t, <-done)
	require.NotErrorIs(t, err, io.EOF)
}

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
	n := newNode(t, Config{Timeout: 5 * testenv.Hang}, device.QPConfig{})
	f := inside(t, n)
	f.frame(frame{kind: kindSend, length: 3, token: 1, qkey: 5}, []byte("abc")...)
	require.NoError(t, f.c.(*net.TCPConn).CloseWrite())
	took := until(t, "packet, and end", func() bool { return len(n.recvs) == 1 && n.port().acceptor.accepted == 0 }, n)
	require.Less(t, took, testenv.Hang, "it need not be asked")
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
	a := newNode(t, Config{Credentials: deaf{&now}, Timeout: 5 * testenv.Hang}, device.QPConfig{})
	b := newNode(t, Config{Credentials: deaf{new(bool)}}, device.QPConfig{})
	require.Equal(t, device.StatusOK, a.status(a.send(b.at(), "x"), b))
	now = true
	begin := clock.System.Now()
	require.Equal(t, device.StatusUnresponsive, a.status(a.send(b.at(), "y"), b))
	require.Less(t, clock.System.Now().Sub(begin), testenv.Hang)
}
