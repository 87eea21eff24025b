package efanet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efanet"
)

func random(n int) []byte {
	r := rand.New(rand.NewPCG(uint64(n), 1))
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// TestStream: writes of any size arrive whatever the size of the reads.
func TestStream(t *testing.T) {
	l := listen(t, efanet.ListenConfig{})
	for _, read := range []int{1000, 100_000, 8 << 20} {
		for _, size := range []int{1, 4096, 4097, 64<<10 - 1, 64 << 10, 300_001, 5<<20 + 1} {
			if size > read*1000 {
				continue // which takes long, and shows nothing else
			}
			t.Run(fmt.Sprintf("write=%d/read=%d", size, read), func(t *testing.T) {
				a, b := dial(t, l)
				p := random(size)
				var wg sync.WaitGroup
				wg.Go(func() {
					for range 2 {
						n, err := a.Write(p)
						assert.NoError(t, err)
						assert.Equal(t, size, n)
					}
					assert.NoError(t, a.CloseWrite())
				})
				var got bytes.Buffer
				_, err := io.CopyBuffer(struct{ io.Writer }{&got}, struct{ io.Reader }{b}, make([]byte, read))
				require.NoError(t, err)
				wg.Wait()
				require.True(t, bytes.Equal(append(p, p...), got.Bytes()))
			})
		}
	}
}

// TestHalfClose: after CloseWrite the other direction goes on; after CloseRead the other side
// cannot write.
func TestHalfClose(t *testing.T) {
	a, b := dial(t, listen(t, efanet.ListenConfig{}))
	_, err := a.Write([]byte("request"))
	require.NoError(t, err)
	require.NoError(t, a.CloseWrite())
	_, err = a.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EPIPE)
	p, err := io.ReadAll(b)
	require.NoError(t, err)
	require.Equal(t, "request", string(p))
	_, err = b.Write([]byte("reply"))
	require.NoError(t, err)
	p = make([]byte, 5)
	_, err = io.ReadFull(a, p)
	require.NoError(t, err)
	require.Equal(t, "reply", string(p))

	require.NoError(t, a.CloseRead())
	_, err = a.Read(p)
	require.Equal(t, io.EOF, err)
	_, err = b.Write(make([]byte, 1<<20)) // more than there is credit for
	require.ErrorIs(t, err, syscall.EPIPE)
}

// TestWriteWhileDrained: after CloseRead a goroutine throws away the bytes that come, without the reader's lock. Write must not
// touch the reader then. The race detector finds it if Write does.
func TestWriteWhileDrained(t *testing.T) {
	a, b := dial(t, listen(t, efanet.ListenConfig{}))
	over := make(chan error, 1)
	go func() {
		for {
			if _, err := b.Write(make([]byte, 1000)); err != nil {
				over <- err
				return
			}
		}
	}()
	_, err := io.ReadFull(a, make([]byte, 60_000)) // a good deal of credit is owed
	require.NoError(t, err)
	go func() { _, _ = io.Copy(io.Discard, b) }()
	require.NoError(t, a.CloseRead())
	for range 1000 {
		_, err := a.Write([]byte("x"))
		require.NoError(t, err)
	}
	require.ErrorIs(t, <-over, syscall.EPIPE)
}

// TestCloseDelivers: what was written before Close arrives, also if both sides' listener and
// dialer are gone by then, and then io.EOF.
func TestCloseDelivers(t *testing.T) {
	for range 5 {
		l := listen(t, efanet.ListenConfig{})
		a, b := dial(t, l)
		p := random(60_000)
		_, err := a.Write(p)
		require.NoError(t, err)
		require.NoError(t, a.Close())
		require.NoError(t, l.Close())
		got, err := io.ReadAll(b)
		require.NoError(t, err)
		require.True(t, bytes.Equal(p, got))
		require.NoError(t, b.Close())
		require.ErrorIs(t, b.Close(), net.ErrClosed)
		_, err = b.Read(p)
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = b.Write(p)
		require.ErrorIs(t, err, net.ErrClosed)
		require.ErrorIs(t, b.SetDeadline(time.Time{}), net.ErrClosed)
	}
}

// TestDeadlineCount: n of a write that a deadline ends is what the other side reads, of short and
// of long writes, read by short and by long reads.
func TestDeadlineCount(t *testing.T) {
	l := listen(t, efanet.ListenConfig{})
	for _, size := range []int{100, 50_000, 3 << 20} {
		for _, read := range []int{0, 10, 70_000, 1 << 20} {
			t.Run(fmt.Sprintf("write=%d/read=%d", size, read), func(t *testing.T) {
				a, b := dial(t, l)
				begun := make(chan int)
				go func() { // reads some, and has the deadline come while the writer writes
					n, _ := io.ReadFull(b, make([]byte, read))
					begun <- n
				}()
				var sent int
				var err error
				done := make(chan struct{})
				go func() {
					defer close(done)
					for err == nil {
						var n int
						n, err = a.Write(make([]byte, size))
						sent += n
					}
				}()
				got := <-begun
				require.NoError(t, a.SetWriteDeadline(time.Unix(1, 0)))
				<-done
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				var timeout net.Error
				require.ErrorAs(t, err, &timeout)
				require.True(t, timeout.Timeout())

				require.NoError(t, a.SetWriteDeadline(time.Time{}))
				const mark = "the end"
				var wg sync.WaitGroup
				wg.Go(func() {
					_, err := a.Write([]byte(mark))
					assert.NoError(t, err)
					assert.NoError(t, a.CloseWrite())
				})
				rest, err := io.ReadAll(b)
				require.NoError(t, err)
				wg.Wait()
				require.Equal(t, sent, got+len(rest)-len(mark))
				require.Equal(t, mark, string(rest[len(rest)-len(mark):]))
			})
		}
	}
}

// TestReadDeadlines: reads that deadlines end lose nothing, also of a transfer that is under way.
func TestReadDeadlines(t *testing.T) {
	a, b := dial(t, listen(t, efanet.ListenConfig{}))
	p := random(2 << 20)
	var wg sync.WaitGroup
	wg.Go(func() {
		for rest := p; len(rest) > 0; {
			n := min(len(rest), 300_001)
			_, err := a.Write(rest[:n])
			assert.NoError(t, err)
			rest = rest[n:]
		}
		assert.NoError(t, a.CloseWrite())
	})
	stop := make(chan struct{})
	var ticking sync.WaitGroup
	ticking.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = b.SetReadDeadline(time.Unix(int64(i%2), 0)) // in the past
				_ = b.SetReadDeadline(time.Time{})
			}
		}
	})
	var got []byte
	buf := make([]byte, 100_000)
	for {
		n, err := b.Read(buf)
		got = append(got, buf[:n]...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		}
	}
	close(stop)
	ticking.Wait()
	wg.Wait()
	require.True(t, bytes.Equal(p, got))
}

// TestSlowReader: a connection that nobody reads holds up itself alone.
func TestSlowReader(t *testing.T) {
	l := listen(t, efanet.ListenConfig{})
	slow, _ := dial(t, l)
	stuck := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = slow.Write(make([]byte, 1000))
		}
		stuck <- err
	}()
	a, b := dial(t, l)
	for range 1000 {
		p := make([]byte, 1000)
		_, err := a.Write(p)
		require.NoError(t, err)
		_, err = io.ReadFull(b, p)
		require.NoError(t, err)
	}
	require.NoError(t, slow.SetWriteDeadline(time.Unix(1, 0)))
	require.ErrorIs(t, <-stuck, os.ErrDeadlineExceeded)
}

// TestSlowReaders: as many connections as there may be with one peer, of which all but one are full
// of the smallest writes, hold up themselves alone.
func TestSlowReaders(t *testing.T) {
	l := listen(t, efanet.ListenConfig{Setup: &efa.Setup{Endpoint: efa.EndpointConfig{
		Protocol: efa.ProtocolConfig{PeerMemory: 4 << 20},
	}}})
	var slow []conn
	var stuck sync.WaitGroup
	for range 24 {
		c, _ := dial(t, l)
		slow = append(slow, c)
		stuck.Go(func() {
			var err error
			for err == nil {
				_, err = c.Write([]byte("x"))
			}
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		})
	}
	a, b := dial(t, l)
	for range 2000 {
		p := make([]byte, 1000)
		_, err := a.Write(p)
		require.NoError(t, err)
		_, err = io.ReadFull(b, p)
		require.NoError(t, err)
	}
	for _, c := range slow {
		require.NoError(t, c.SetWriteDeadline(time.Unix(1, 0)))
	}
	stuck.Wait()
	_, err := efanet.Dial(soon(t), l.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "as many connections")
}

// TestFewPlaces: a listener goes on whose endpoint has no place for a receive at times, since
// goroutines that read have taken them.
func TestFewPlaces(t *testing.T) {
	l := listen(t, efanet.ListenConfig{Setup: &efa.Setup{Endpoint: efa.EndpointConfig{RxDepth: 6}}})
	var dialed, reading []conn
	for range 3 {
		a, b := dial(t, l)
		dialed, reading = append(dialed, a), append(reading, b)
	}
	var readers sync.WaitGroup
	for _, c := range reading {
		readers.Go(func() {
			_, err := c.Read(make([]byte, 1))
			assert.NoError(t, err)
		})
	}
	dial(t, l) // whose place a reader may take
	for _, c := range dialed {
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
	}
	readers.Wait()
	for range 5 {
		dial(t, l)
	}
}

// TestCloseWhileDialed: a listener that closes while somebody dials ends, and so does the dial.
func TestCloseWhileDialed(t *testing.T) {
	for range 20 {
		l := listen(t, efanet.ListenConfig{})
		var dials sync.WaitGroup
		for range 2 {
			dials.Go(func() {
				if c, err := efanet.Dial(soon(t), l.Addr().String()); err == nil {
					_, err = c.Read(make([]byte, 1))
					assert.ErrorIs(t, err, syscall.ECONNRESET)
					assert.NoError(t, c.Close())
				}
			})
		}
		require.NoError(t, l.Close())
		dials.Wait()
	}
}

// TestTransferAllocates: a long write there and back makes the operations that send it, and no contexts.
func TestTransferAllocates(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	l := listen(t, efanet.ListenConfig{})
	c, err := efanet.Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	const size = 64 << 10
	go func() {
		if c, err := l.Accept(); err == nil {
			defer c.Close()
			p := make([]byte, size)
			for {
				if _, err := io.ReadFull(c, p); err != nil {
					return
				}
				if _, err := c.Write(p); err != nil {
					return
				}
			}
		}
	}()
	p := make([]byte, size)
	least := math.Inf(1)
	for i := 0; i < 1000 && least > 20; i++ { // a wait that sleeps may register with its context
		least = min(least, testing.AllocsPerRun(1, func() {
			_, err := c.Write(p)
			require.NoError(t, err)
			_, err = io.ReadFull(c, p)
			require.NoError(t, err)
		}))
	}
	require.LessOrEqual(t, least, 20.0)
}

// TestHoldEnds: the endpoint keeps nothing of a closed connection that has received long writes.
func TestHoldEnds(t *testing.T) {
	l := listen(t, efanet.ListenConfig{})
	c, err := efanet.Dial(soon(t), l.Addr().String())
	require.NoError(t, err)
	far, err := l.Accept()
	require.NoError(t, err)
	const size = 64 << 10
	go func() {
		_, _ = far.Write(make([]byte, size)) // Read has the error
		far.Close()
	}()
	_, err = io.ReadFull(c, make([]byte, size))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Error(t, efanet.Held(c).Err())
}

// TestMany: thousands of connections on one endpoint each side, with a reader each.
func TestMany(t *testing.T) {
	n := 2000
	if raceEnabled {
		n = 300
	}
	l := listen(t, efanet.ListenConfig{})
	var serving sync.WaitGroup
	serving.Go(func() {
		for range n {
			c, err := l.Accept()
			if !assert.NoError(t, err) {
				return
			}
			serving.Go(func() {
				_, _ = io.Copy(c, c)
				_ = c.Close()
			})
		}
	})
	var conns []net.Conn
	for range n {
		c, err := efanet.Dial(soon(t), l.Addr().String())
		require.NoError(t, err)
		conns = append(conns, c)
	}
	for i, c := range conns {
		_, err := fmt.Fprintf(c, "%08d", i)
		require.NoError(t, err)
	}
	for i, c := range conns {
		p := make([]byte, 8)
		_, err := io.ReadFull(c, p)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%08d", i), string(p))
		require.NoError(t, c.Close())
	}
	serving.Wait()
}

// TestRefused: dials that cannot succeed fail at once, with the reason.
func TestRefused(t *testing.T) {
	ctx := soon(t)
	l := listen(t, efanet.ListenConfig{Backlog: 1})
	dial(t, l)
	c, err := efanet.Dial(ctx, l.Addr().String())
	require.NoError(t, err)
	_, err = efanet.Dial(ctx, l.Addr().String())
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "backlog is full")
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.Equal(t, "dial", op.Op)

	_, err = efanet.Dial(ctx, c.LocalAddr().String()) // of an endpoint that dials
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.ErrorContains(t, err, "nobody listens")

	require.NoError(t, l.Close()) // with c not accepted
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	_, err = c.Write(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.NoError(t, c.Close())

	gone, err := efa.OpenEndpoint(ctx, efa.Setup{})
	require.NoError(t, err)
	at := gone.Address().String()
	require.NoError(t, gone.Close())
	_, err = efanet.Dial(ctx, at)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	for _, bad := range []string{"", "nowhere", "shm://x"} {
		_, err = efanet.Dial(ctx, bad)
		require.ErrorAs(t, err, &op)
	}
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestDialContext: a dial to an endpoint that does not answer ends with its context.
func TestDialContext(t *testing.T) {
	silent := endpoint(t)
	ctx, cancel := context.WithCancel(soon(t))
	failed := make(chan error)
	go func() {
		_, err := efanet.Dial(ctx, silent.Address().String())
		failed <- err
	}()
	d, err := silent.NextTag(soon(t), efa.AnyTag)
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled)
	// The answer to the connection that nobody waits for any more.
	to, err := silent.AddressVector().Insert(sender(t, &d))
	require.NoError(t, err)
	id := uint64(d.Body[0])
	d.Release()
	require.NoError(t, silent.SendTag(soon(t), to, tag(4, id), nil, efa.Data(kRefuse<<56|1)))

	ctx, cancel = context.WithDeadline(soon(t), time.Unix(1, 0))
	defer cancel()
	_, err = efanet.Dial(ctx, silent.Address().String())
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout())
}

// TestHostPort: a listener gives its address out at a TCP port.
func TestHostPort(t *testing.T) {
	l, err := efanet.Listen(soon(t), "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	_, _, err = net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	a, b := dial(t, l)
	_, err = a.Write([]byte("word"))
	require.NoError(t, err)
	p := make([]byte, 4)
	_, err = io.ReadFull(b, p)
	require.NoError(t, err)
	require.Equal(t, "word", string(p))
}

// TestDeath: a process that dies is an error on every connection with it, those with a reader
// and those without.
func TestDeath(t *testing.T) {
	at, cmd := process(t, "efanet")
	var conns []net.Conn
	for range 20 {
		c, err := efanet.Dial(soon(t), at)
		require.NoError(t, err)
		defer c.Close()
		p := []byte("echo")
		_, err = c.Write([]byte("00000004echo"))
		require.NoError(t, err)
		_, err = io.ReadFull(c, p)
		require.NoError(t, err)
		conns = append(conns, c)
	}
	failed := make(chan error)
	for _, c := range conns[:10] {
		go func() {
			_, err := c.Read(make([]byte, 1))
			failed <- err
		}()
	}
	require.NoError(t, cmd.Process.Kill())
	for range 10 {
		require.ErrorIs(t, <-failed, syscall.ECONNRESET)
	}
	for _, c := range conns {
		_, err := c.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.ErrorIs(t, err, efa.ErrPeerFailed)
	}
	for _, c := range conns {
		// A short one, as long as it has credit, fails as soon as a goroutine has noted the end.
		require.Eventually(t, func() bool {
			_, err := c.Write([]byte("x"))
			return errors.Is(err, syscall.ECONNRESET)
		}, time.Minute, time.Millisecond)
		_, err := c.Write(make([]byte, 1<<20))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	}
}
