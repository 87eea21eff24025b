//go:build linux

package tcp

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/internal/jobcert"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

const (
	tlsTimeout = 20 * time.Second
	bulk       = 256 << 10 // more than the stream takes at once
)

// counting is a stream of bytes that shows a missing, doubled or moved one.
func counting(from, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		at := from + i
		p[i] = byte(at ^ at>>8 ^ at>>16)
	}
	return p
}

// Both directions at once, pieces of all sizes, driven by edges alone.
func TestTLSStreamCarries(t *testing.T) {
	const total = 8 << 20
	a, b := tlsPair(t)
	var wg sync.WaitGroup
	for i, e := range []*end{a, b} {
		wg.Go(func() { // one goroutine an end, as a shard
			rnd := rand.New(rand.NewPCG(uint64(i), 7))
			sent, got := 0, 0
			buf := make([]byte, 128<<10)
			for sent < total || got < total {
				moved := 0
				if sent < total {
					p := counting(sent, min(total-sent, 1+rnd.IntN(100_000)))
					cut := rnd.IntN(len(p) + 1)
					n, err := e.writev([][]byte{p[:cut], p[cut:]})
					if !assert.NoError(t, err) {
						return
					}
					if sent += n; n == len(p) {
						moved = n
					}
				}
				cut := rnd.IntN(len(buf))
				n, err := e.readv(buf[:cut], buf[cut:])
				if !assert.NoError(t, err) || !assert.Equal(t, counting(got, n), buf[:n]) {
					return
				}
				if got += n; moved == 0 && n < len(buf) && (sent < total || got < total) {
					e.wait()
				}
			}
		})
	}
	wg.Wait()
	require.NoError(t, a.vouch(tlsB))
	require.NoError(t, b.vouch(tlsA))
}

func TestTLSStreamVouches(t *testing.T) {
	a, b := tlsPair(t)
	silent := newSilent(t)
	n, err := silent.writev([][]byte{[]byte("too early")})
	require.NoError(t, err)
	require.Zero(t, n)
	require.ErrorIs(t, silent.vouch(tlsA), errImpostor, "before the handshake nobody is")
	require.NoError(t, a.sendAll([]byte("preamble")))
	p := make([]byte, 8)
	_, err = io.ReadFull(reader{b}, p)
	require.NoError(t, err)
	require.Equal(t, "preamble", string(p))
	require.NoError(t, b.vouch(tlsA))
	for _, lie := range []wire.RawAddr{
		tlsB,
		{},
		wire.MakeRawAddr(tlsA.GID(), tlsA.QPN(), tlsA.ConnID()+1),
		wire.MakeRawAddr(tlsA.GID(), tlsA.QPN()+1, tlsA.ConnID()),
		wire.MakeRawAddr([16]byte{15: 1}, tlsA.QPN(), tlsA.ConnID()),
	} {
		err := b.vouch(lie)
		require.ErrorIs(t, err, errImpostor)
		require.ErrorIs(t, err, jobcert.ErrAddress)
	}
}

type reader struct{ *end }

func (r reader) Read(p []byte) (int, error) { return r.readSome(p) }

// newSilent is a stream whose other side says nothing.
func newSilent(t *testing.T) *end {
	t.Helper()
	x, y := socks(t)
	t.Cleanup(func() { _ = y.Close() })
	return tlsEnd(t, x, jobCreds(t, tlsSecret), tlsConn(true))
}

// A stream that is given up at any time leaves neither goroutines nor descriptors.
func TestTLSStreamLeavesNothing(t *testing.T) {
	before := descriptors(t)
	newSilent(t).close()
	a, b := tlsBegin(t)
	require.LessOrEqual(t, descriptors(t), before+8, "a stream has one, and here a bell, and perhaps an epoll")
	a.close() // within the handshake
	require.Error(t, b.readErr())
	b.close()
	a, b = tlsPair(t)
	require.NoError(t, a.sendAll([]byte{1}))
	_, err := b.readSome(make([]byte, 2))
	require.NoError(t, err)
	b.close()
	require.Error(t, a.readErr())
	a.close()
	noGoroutines(t)
	for begin := clock.System.Now(); descriptors(t) > before+2; runtime.Gosched() { // newSilent's other side, and room for the runtime
		require.Less(t, clock.System.Now().Sub(begin), time.Minute, "descriptors are left")
	}
}

// Bytes written before shut arrive, then the end; the other direction goes on.
func TestTLSStreamShut(t *testing.T) {
	a, b := tlsPair(t)
	want := counting(0, bulk)
	require.NoError(t, a.sendAll(want))
	a.shut()
	got := make([]byte, len(want))
	_, err := io.ReadFull(reader{b}, got)
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.ErrorIs(t, b.readErr(), io.EOF)
	require.NoError(t, b.sendAll([]byte("yes")))
	_, err = io.ReadFull(reader{a}, got[:3])
	require.NoError(t, err)
	require.Equal(t, "yes", string(got[:3]))
}

// Bytes written before shut arrive also if close follows at once.
func TestTLSStreamCloseFlushes(t *testing.T) {
	a, b := tlsPair(t)
	want := counting(0, bulk)
	got := make([]byte, len(want))
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := io.ReadFull(reader{b}, got)
		assert.NoError(t, err)
		assert.ErrorIs(t, b.readErr(), io.EOF)
	})
	require.NoError(t, a.sendAll(want))
	a.shut()
	a.close()
	wg.Wait()
	require.Equal(t, want, got)
}

// A side that does not read stops the other one, which sees so, and nothing is lost
// when it reads on.
func TestTLSStreamBackPressure(t *testing.T) {
	a, b := tlsPair(t)
	require.NoError(t, a.sendAll([]byte{0}))
	_, err := b.readSome(make([]byte, 1))
	require.NoError(t, err)
	const chunk = 32 << 10
	sent := 0
	for stuck := 0; stuck < 200; { // both socket buffers are full then
		n, err := a.writev([][]byte{counting(sent, chunk)})
		require.NoError(t, err)
		if sent += n; n == 0 {
			stuck++
			_, _ = unix.Poll(nil, 1)
		} else {
			stuck = 0
		}
		require.Less(t, sent, 64<<20, "somebody buffers without a bound")
	}
	require.Positive(t, a.unacked())
	got := make([]byte, sent+chunk)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := io.ReadFull(reader{b}, got)
		assert.NoError(t, err)
	})
	a.wait() // notified that there is room again
	require.NoError(t, a.sendAll(counting(sent, chunk)))
	wg.Wait()
	require.Equal(t, counting(0, len(got)), got)
}

// Every fault at the other end becomes an error of readv.
func TestTLSStreamRefuses(t *testing.T) {
	for name, other := range map[string]func(t *testing.T, sock *net.TCPConn) *end{
		"other secret": func(t *testing.T, sock *net.TCPConn) *end {
			return tlsEnd(t, sock, jobCreds(t, []byte("quite another secret")), tlsConn(false))
		},
		"other queue pair": func(t *testing.T, sock *net.TCPConn) *end {
			c := tlsConn(false)
			c.self = tlsA
			return tlsEnd(t, sock, jobCreds(t, tlsSecret), c)
		},
		"both dialed": func(t *testing.T, sock *net.TCPConn) *end {
			return tlsEnd(t, sock, jobCreds(t, tlsSecret), tlsConn(true))
		},
		"no TLS": func(t *testing.T, sock *net.TCPConn) *end {
			_, err := sock.Write([]byte("GET / HTTP/1.1\r\n\r\n"))
			require.NoError(t, err)
			t.Cleanup(func() { _ = sock.Close() })
			return nil
		},
		"end": func(_ *testing.T, sock *net.TCPConn) *end { _ = sock.Close(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			x, y := socks(t)
			a := tlsEnd(t, x, jobCreds(t, tlsSecret), tlsConn(true))
			a.other = other(t, y)
			err := a.readErr()
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF)
			_, werr := a.writev([][]byte{{1}})
			require.Equal(t, err, werr)
		})
	}
}

// A connection that breaks off is an error; io.EOF means that the other side has
// closed it properly.
func TestTLSStreamTruncated(t *testing.T) {
	for _, c := range []struct {
		name string
		cut  func(a *end) error
		want error
	}{
		{"end", func(a *end) error { return a.cut() }, errBrokenOff},
		{"reset", func(a *end) error {
			defer a.close()
			return a.abort()
		}, unix.ECONNRESET},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := tlsPair(t)
			require.NoError(t, a.sendAll([]byte{1}))
			_, err := b.readSome(make([]byte, 1))
			require.NoError(t, err)
			for a.unacked() > 0 { // the writer is at rest
				_, _ = unix.Poll(nil, 1)
			}
			require.NoError(t, c.cut(a))
			require.ErrorIs(t, b.readErr(), c.want)
		})
	}
}

// Certificates of the caller's work through the same streams.
func TestTLSStreamOwnCertificates(t *testing.T) {
	company := newCompany(t)
	good, wrong := company.credentials(t, net.IPv4(127, 0, 0, 1)), company.credentials(t, net.IPv4(127, 0, 0, 2))

	x, y := socks(t)
	a, b := tlsEnd(t, x, good, tlsConn(true)), tlsEnd(t, y, good, tlsConn(false))
	meet(t, a, b)
	require.NoError(t, a.sendAll([]byte{1}))
	_, err := b.readSome(make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, b.vouch(tlsA))

	x, y = socks(t)
	a, b = tlsEnd(t, x, wrong, tlsConn(true)), tlsEnd(t, y, good, tlsConn(false))
	meet(t, a, b)
	require.NoError(t, a.sendAll([]byte{1}))
	_, err = b.readSome(make([]byte, 1))
	require.NoError(t, err)
	require.ErrorIs(t, b.vouch(tlsA), jobcert.ErrAddress, "of another host")

	_, err = Certificates(&tls.Config{})
	require.ErrorIs(t, err, jobcert.ErrConfig)
	_, err = JobSecret(make([]byte, jobcert.MinSecret-1))
	require.ErrorIs(t, err, jobcert.ErrSecret)
}

// One key for each queue pair, and no more of them than queue pairs.
func TestSecuredCache(t *testing.T) {
	s := jobCreds(t, tlsSecret).(*secured)
	x, err := s.of(tlsA)
	require.NoError(t, err)
	again, err := s.of(tlsA)
	require.NoError(t, err)
	require.Same(t, x, again)
	for i := range maxQP + 7 {
		_, err := s.of(wire.MakeRawAddr(tlsA.GID(), uint16(i), 1))
		require.NoError(t, err)
		require.LessOrEqual(t, len(s.byQP), maxQP)
	}
}
