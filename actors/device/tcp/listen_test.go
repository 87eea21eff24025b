//go:build linux

package tcp

import (
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// shortly is a timeout that is waited for.
const shortly = 400 * time.Millisecond

// inTime does what has to wait for a timeout of its own, and not for another one. That shows in
// a time below DefaultTimeout, which leaves a machine that is busy most of that, thrice. The short form doesn't
// judge times.
func inTime(t *testing.T, f func()) {
	t.Helper()
	var took time.Duration
	for range 3 {
		begin := clock.System.Now()
		f()
		if took = clock.System.Now().Sub(begin); took < DefaultTimeout || testenv.Short() {
			return
		}
		t.Logf("took %v", took)
	}
	require.Less(t, took, DefaultTimeout)
}

// TestSilentStranger: a connection that sends nothing, or half a preamble, is closed
// within the timeout, and has no buffer until then.
func TestSilentStranger(t *testing.T) {
	inTime(t, func() {
		n := newNode(t, Config{Timeout: shortly}, device.QPConfig{})
		a, b := newFoe(t, n, nil), newFoe(t, n, nil)
		h := b.hello()
		b.say(h.appendTo(nil)[:preambleLen-1])
		until(t, "that they are in", func() bool { return n.port().acceptor.accepted == 2 }, n)
		for _, c := range n.port().conns {
			require.Nil(t, c.l.in)
		}
		a.closed()
		b.closed()
	})
}

// TestGreetsBeforeItCloses: what a stranger says may be there before our greeting has left. The stranger, perhaps a peer
// with TLS, learns from the greeting what listens here; a connection that is reset says nothing.
func TestGreetsBeforeItCloses(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	f := newFoe(t, n, nil)
	f.say(make([]byte, preambleLen)) // no preamble
	f.closed()
	require.True(t, f.greeted)
}

// TestFlood: with too many connections, the oldest of those that are not identified are
// closed, and sessions stay. A peer that does not get in learns why, and may take the place of
// a session of its own.
func TestFlood(t *testing.T) {
	const most = 4
	n := newNode(t, Config{MaxConn: most}, device.QPConfig{})
	good := inside(t, n)
	var strangers []*foe
	const lots = 2 * (most + spareConn)
	for range lots {
		strangers = append(strangers, newFoe(t, n, nil))
		n.poll()
		require.LessOrEqual(t, n.port().acceptor.accepted, most+spareConn)
	}
	until(t, "that all were seen", func() bool { return n.d.Stats().Accepted == 1+lots }, n)
	require.Equal(t, most+spareConn, n.port().acceptor.accepted)
	for i, f := range strangers {
		if f.hear(); i < lots+1-most-spareConn {
			f.closed()
		}
		require.Equal(t, i < lots+1-most-spareConn, f.eof, "the oldest are closed, stranger %d", i)
	}
	good.works()
	var sessions []*foe
	for range most - 1 {
		sessions = append(sessions, inside(t, n))
	}
	late := newFoe(t, n, nil)
	require.Equal(t, tooMany, late.reply(late.hello()).verdict)
	late.closed()
	again := newFoe(t, n, sessions[0])
	h := again.hello()
	h.session, h.last = h.session+1, 0
	require.Equal(t, taken, again.reply(h).verdict, "in the place of its own")
	sessions[0] = again
	for _, f := range sessions {
		f.works()
	}
	require.NoError(t, good.c.Close())
	until(t, "room", func() bool { return !n.port().acceptor.full() }, n)
	inside(t, n).works()
}

// TestSilentDial: the preamble is not answered.
func TestSilentDial(t *testing.T) {
	inTime(t, func() {
		n := newNode(t, Config{Timeout: shortly}, device.QPConfig{})
		h := newHost(t, n)
		require.Equal(t, device.StatusUnresponsive, n.status(n.send(h.at, "hello?")))
	})
}

// TestSilentLane: one lane of a session stalls while the other is well, with a request
// on it.
func TestSilentLane(t *testing.T) {
	inTime(t, func() {
		n := newNode(t, Config{Timeout: shortly}, device.QPConfig{})
		h := newHost(t, n)
		n.send(h.at, "x")
		f, lane1, _ := h.take()
		until(t, "lane 1", func() bool { return n.port().remotes[h.at].dialed.bulk().no == 1 }, n)
		answer := func() { // lane 0 is well
			for f.hear(); len(f.in) >= baseLen; f.hear() {
				var fr frame
				k, err := fr.parse(f.in, DefaultMTU)
				require.NoError(t, err)
				f.in = f.in[k:]
				switch fr.kind {
				case kindSend:
					f.in = f.in[fr.length:]
				case kindPing:
					f.frame(frame{kind: kindPong, token: fr.token})
				}
			}
		}
		begin := clock.System.Now()
		until(t, "twice the timeout", func() bool { answer(); return clock.System.Now().Sub(begin) > 2*shortly }, n)
		require.Zero(t, n.d.Stats().Broken, "idle lanes may be silent")
		wr := n.wr(h.at)
		wr.Kind, wr.Payload, wr.RKey = device.WRRead, make([]byte, 100_000), 1
		id := n.post(wr)
		until(t, "the end of the read", func() bool { answer(); _, ok := n.sends[id]; return ok }, n)
		require.Equal(t, device.StatusUnresponsive, n.sends[id])
		lane1.closed()
	})
}

// slow is a stream whose other host takes bytes on command.
type slow struct {
	stream
	left int
}

func (s *slow) unacked() int { return s.left }

// TestProgress: bytes that the other host takes are a sign of life while more wait; that
// it took the last of them is none.
func TestProgress(t *testing.T) {
	s := &slow{}
	l := &lane{st: s, sent: 1000}
	for i, c := range []struct {
		left, waits int
		want        bool
	}{
		{1000, 50, false}, {900, 50, true}, {900, 50, false}, {800, 0, true}, {0, 0, false}, {0, 50, false},
	} {
		s.left, l.out.size = c.left, c.waits
		require.Equal(t, c.want, l.progressed(), "tick %d", i)
	}
}

// TestLateTicks: a process that was stopped does not blame the others: one late tick
// is one tick.
func TestLateTicks(t *testing.T) {
	n := newNode(t, Config{Timeout: shortly}, device.QPConfig{})
	f := inside(t, n)
	begin := clock.System.Now()
	for clock.System.Now().Sub(begin) < 2*shortly { // as a stopped process
		_, _ = f.c.Read(nil)
		f.hear()
	}
	f.works()
	require.Zero(t, n.d.Stats().Broken)
}

// proxy carries connections to a queue pair until it is cut.
type proxy struct {
	l     net.Listener
	to    string
	limit int64 // bytes of the third connection, lane 1 of a second session, say
	mu    sync.Mutex
	conns []net.Conn
	wait  sync.WaitGroup
}

func (p *proxy) run() {
	for {
		c, err := p.l.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", p.to)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, c, up)
		limit := int64(1 << 40)
		if len(p.conns) == 4 {
			limit = p.limit
		}
		p.mu.Unlock()
		both := func() { _ = c.Close(); _ = up.Close() }
		p.wait.Go(func() { _, _ = io.CopyN(up, c, limit); both() })
		p.wait.Go(func() { _, _ = io.Copy(c, up); both() })
	}
}

// anybody accepts every claim, as the address of a proxy belongs to no queue pair.
type anybody struct{}

type unasked struct{ bareStream }

func (unasked) vouch(wire.RawAddr) error { return nil }

func (anybody) wrap(s socket, c conn) (stream, error) { return unasked{bare(s, c)}, nil }

// TestCutInTheMiddle cuts a connection in the middle of a write with immediate, at
// different bytes: the write ends with an error and is never reported at the other side;
// what is sent afterwards arrives, once and in order.
func TestCutInTheMiddle(t *testing.T) {
	for _, cut := range []int64{preambleLen + 1, preambleLen + writeLen, preambleLen + writeLen + 99_999, preambleLen + writeLen + 100_000} {
		host, behind := nextHost(), nextHost()
		b := newNode(t, Config{Addr: behind, Credentials: anybody{}}, device.QPConfig{})
		l, err := net.Listen("tcp", netip.AddrPortFrom(host, b.q.QPN()).String())
		require.NoError(t, err)
		px := &proxy{l: l, to: netip.AddrPortFrom(behind, b.q.QPN()).String(), limit: cut}
		px.wait.Go(px.run)
		// b knows itself as behind the proxy, a sees it there: both accept it.
		b.port().self.gid = GIDOf(host)
		a := newNode(t, Config{Credentials: anybody{}}, device.QPConfig{RNRRetry: 7})
		mr, err := b.d.Alloc(100_000, device.RemoteWrite)
		require.NoError(t, err)
		at := address{GIDOf(host), b.q.QPN()}

		require.Equal(t, device.StatusOK, a.status(a.send(at, "0"), b))
		until(t, "lane 1", func() bool {
			r := a.port().remotes[at]
			return r != nil && r.dialed != nil && r.dialed.bulk().no == 1
		}, a, b)
		wr := a.wr(at)
		wr.Kind, wr.HasImm, wr.Payload, wr.RKey, wr.Remote = device.WRWrite, true, make([]byte, 100_000), mr.RKey(), mr.Addr()
		st := a.status(a.post(wr), b)
		if whole := cut == preambleLen+writeLen+100_000; whole {
			require.True(t, st == device.StatusOK || st.Gone(), st.String())
		} else {
			require.True(t, st.Gone(), "cut at %d: %v", cut, st)
			require.Empty(t, b.wrote)
		}
		for _, s := range []string{"1", "2", "3"} {
			until(t, "that it goes on", func() bool { return a.status(a.send(at, s), b) == device.StatusOK }, a, b)
		}
		until(t, "arrivals", func() bool { return len(b.recvs) >= 4 }, a, b)
		got := ""
		for _, r := range b.recvs {
			got += string(r)
		}
		require.Equal(t, "0123", got)
		require.Empty(t, a.gone)
		require.NoError(t, mr.Close())
		require.NoError(t, a.q.Close())
		require.NoError(t, b.q.Close())
		require.NoError(t, l.Close())
		px.wait.Wait()
	}
}

// secretVar makes the other process use TLS.
const secretVar = "EFACTOR_TCP_TEST_SECRET"

// TestFloodOfStrangers: while a process is flooded by more silent connections than it has
// descriptors, each peer that comes gets in, soon.
func TestFloodOfStrangers(t *testing.T) {
	skipPoller(t)
	for name, secret := range map[string]string{"plain": "", "TLS": string(tlsSecret)} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/bin/sh", "-c", "ulimit -n 200; exec "+os.Args[0])
			cmd.Env = append(os.Environ(), secretVar+"="+secret)
			_, at, _ := startEchoAs(t, cmd)
			made := flood(t, at)
			peers := 100
			if testenv.Short() {
				peers = 20
			}
			for range peers {
				cfg := Config{Timeout: 5 * testenv.Hang}
				if secret != "" {
					cfg.Credentials = jobCreds(t, tlsSecret)
				}
				n := newNode(t, cfg, device.QPConfig{})
				begin := clock.System.Now()
				got := n.status(n.send(at, "hello"))
				for testenv.Short() && got != device.StatusOK && clock.System.Now().Sub(begin) < testenv.Hang {
					got = n.status(n.send(at, "hello")) // on a busy machine the flood may be faster than a handshake
				}
				require.Equal(t, device.StatusOK, got)
				require.Less(t, clock.System.Now().Sub(begin), testenv.Hang)
				require.NoError(t, n.q.Close())
			}
			require.Greater(t, made(), peers)
		})
	}
}

// TestDialedAgain: a connection that is closed before the reply costs no request, wherever it
// was by then.
func TestDialedAgain(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	h := newHost(t, n)
	id := n.send(h.at, "patience")
	f, p := h.accept()
	require.NoError(t, f.c.Close())
	c := h.bare()
	require.NoError(t, c.Close())
	again, _, q := h.take()
	require.Greater(t, q.session, p.session)
	fr := again.answer()
	require.Equal(t, "patience", string(again.want(fr.length)))
	again.frame(frame{kind: kindStatus, token: fr.token})
	require.Equal(t, device.StatusOK, n.status(id))
	require.Empty(t, n.gone)
}

// flood connects to a queue pair, without a word, until the test ends, and has 1000 of these
// connections open. The function ends it and returns how many there were.
func flood(t *testing.T, at address) (end func() int) {
	t.Helper()
	stop, made := make(chan struct{}), make(chan int, 1)
	go func() {
		var held []net.Conn
		n := 0
		defer func() {
			for _, c := range held {
				_ = c.Close()
			}
			made <- n
		}()
		for {
			select {
			case <-stop:
				return
			default:
			}
			c, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: AddrOf(at.gid).AsSlice(), Port: int(at.qpn)})
			if err != nil {
				continue
			}
			n++
			if held = append(held, c); len(held) > 1000 {
				_ = held[0].Close()
				held = held[1:]
			}
		}
	}()
	end = sync.OnceValue(func() int { close(stop); return <-made })
	t.Cleanup(func() { end() })
	return end
}
