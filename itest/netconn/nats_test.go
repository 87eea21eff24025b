//go:build linux

package netconn_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/textproto"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efanet"
	"github.com/efactor/efactor/runtime/clock"
)

const (
	// most is how long these tests wait for what has to happen.
	most = time.Minute
	// largest is what a message may have, twice as much as efanet moves at once.
	largest = 8 << 20
)

// natsHost is a server of NATS that listens nowhere itself: what efanet accepts goes to its
// in-process connections, and a second server can take the place of the first.
type natsHost struct {
	tb       testing.TB
	sides    sides
	at       string
	patience time.Duration // with a client that does not read
	running  sync.WaitGroup

	mu      sync.Mutex
	current *server.Server
}

func newNATSHost(tb testing.TB, s sides, patience time.Duration) *natsHost {
	l := listen(tb, s)
	h := &natsHost{tb: tb, sides: s, at: l.Addr().String(), patience: patience}
	h.start()
	h.running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed below
			}
			h.running.Go(func() { h.serve(c) })
		}
	})
	tb.Cleanup(func() {
		h.stop()
		require.NoError(tb, l.Close())
		h.running.Wait()
	})
	return h
}

func (h *natsHost) start() {
	s, err := server.NewServer(&server.Options{
		DontListen: true, NoSigs: true, NoLog: true,
		MaxPayload: largest, MaxPending: 2 * largest, WriteDeadline: h.patience,
	})
	require.NoError(h.tb, err)
	s.Start()
	require.True(h.tb, s.ReadyForConnections(most))
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = s
}

func (h *natsHost) server() *server.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

func (h *natsHost) stop() {
	s := h.server()
	s.Shutdown()
	s.WaitForShutdown()
}

// serve makes c a connection of the server, until either end closes it.
func (h *natsHost) serve(c net.Conn) {
	in, err := h.server().InProcessConn()
	if err != nil {
		_ = c.Close() // the server is down: the client tries again
		return
	}
	var out sync.WaitGroup
	out.Go(func() {
		pump(c, in)
		_ = c.Close() // ends the other direction, which has its own error
	})
	pump(in, c)
	_ = in.Close()
	out.Wait()
}

// pump copies until either side ends, in pieces as long as make one transfer of efanet.
func pump(to io.Writer, from io.Reader) {
	// The plain interfaces keep io.CopyBuffer from looking for other methods than these two.
	_, _ = io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 256<<10))
}

// natsDialer is efanet as nats.SetCustomDialer takes it, for one client. The address in the client's
// URL is not looked at, since only a host and a port would do there.
type natsDialer struct {
	efanet *efanet.Dialer
	at     string
	last   net.Conn
}

// Dial closes the connection before, if there is one: a client that connects again while the
// server goes down drops the connection without closing it, where package net has a finalizer.
// The client dials one at a time.
func (d *natsDialer) Dial(string, string) (net.Conn, error) {
	if d.last != nil {
		_ = d.last.Close() // perhaps for the second time
	}
	c, err := d.efanet.Dial(context.Background(), d.at)
	d.last = c // nil after an error
	return c, err
}

func (h *natsHost) dialer() *natsDialer {
	return &natsDialer{efanet: &efanet.Dialer{Setup: h.sides.dial, Timeout: most}, at: h.at}
}

func (h *natsHost) connect(opts ...nats.Option) *nats.Conn {
	nc, err := nats.Connect("nats://efanet", append([]nats.Option{
		nats.SetCustomDialer(h.dialer()), nats.Timeout(most),
		// A test that expects errors has a handler of its own.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { assert.NoError(h.tb, err) }),
	}, opts...)...)
	require.NoError(h.tb, err)
	h.tb.Cleanup(nc.Close)
	return nc
}

// TestNATS: NATS's own client and server on each device.
func TestNATS(t *testing.T) {
	for _, dev := range devices {
		t.Run(dev.name, func(t *testing.T) {
			for _, c := range []struct {
				name     string
				run      func(*testing.T, *natsHost)
				patience time.Duration
			}{
				{"publish", testPublish, most},
				{"request", testRequest, most},
				{"large", testLargePayload, most},
				{"drain", testDrain, most},
				{"slow subscription", testSlowSubscription, most},
				{"slow connection", testSlowConnection, 3 * time.Second},
				{"shutdown", testShutdown, most},
				{"restart", testRestart, most},
			} {
				t.Run(c.name, func(t *testing.T) { c.run(t, newNATSHost(t, dev.open(t), c.patience)) })
			}
		})
	}
}

// testPublish: each of two subscribers has every message in order, and a queue group has each once.
func testPublish(t *testing.T, h *natsHost) {
	const n = 1000
	publisher, subscriber := h.connect(), h.connect()
	var subs []*nats.Subscription
	for range 2 {
		s, err := subscriber.SubscribeSync("count.*")
		require.NoError(t, err)
		subs = append(subs, s)
	}
	got := make(chan *nats.Msg, 2*n)
	for range 2 {
		_, err := subscriber.ChanQueueSubscribe("count.>", "group", got)
		require.NoError(t, err)
	}
	require.NoError(t, subscriber.FlushTimeout(most))
	for i := range n {
		require.NoError(t, publisher.Publish("count.up", fmt.Append(nil, i)))
	}
	require.NoError(t, publisher.FlushTimeout(most))
	for _, s := range subs {
		for i := range n {
			m, err := s.NextMsg(most)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i), string(m.Data))
		}
	}
	seen := map[string]bool{}
	for range n {
		select {
		case m := <-got:
			require.False(t, seen[string(m.Data)], "%s twice in a group", m.Data)
			seen[string(m.Data)] = true
		case <-clock.NewTimer(most).C:
			require.FailNow(t, "a message of the group is missing")
		}
	}
}

// testRequest: requests of several goroutines over one connection, and one that nobody answers.
func testRequest(t *testing.T, h *natsHost) {
	service, client := h.connect(), h.connect()
	_, err := service.Subscribe("upper", func(m *nats.Msg) {
		assert.NoError(t, m.Respond(bytes.ToUpper(m.Data)))
	})
	require.NoError(t, err)
	require.NoError(t, service.FlushTimeout(most))
	var wg sync.WaitGroup
	for who := range 4 {
		wg.Go(func() {
			for i := range 100 {
				m, err := client.Request("upper", fmt.Appendf(nil, "a%d b%d", who, i), most)
				if assert.NoError(t, err) {
					assert.Equal(t, fmt.Sprintf("A%d B%d", who, i), string(m.Data))
				}
			}
		})
	}
	wg.Wait()
	_, err = client.Request("nobody", nil, most)
	require.ErrorIs(t, err, nats.ErrNoResponders)
}

// testLargePayload: the largest message there and back, and one byte above it.
func testLargePayload(t *testing.T, h *natsHost) {
	service, client := h.connect(), h.connect()
	_, err := service.Subscribe("echo", func(m *nats.Msg) { assert.NoError(t, m.Respond(m.Data)) })
	require.NoError(t, err)
	require.NoError(t, service.FlushTimeout(most))
	body := make([]byte, largest)
	for i := range body {
		body[i] = byte(i * 7 >> 3)
	}
	m, err := client.Request("echo", body, most)
	require.NoError(t, err)
	require.True(t, bytes.Equal(body, m.Data))
	require.ErrorIs(t, client.Publish("echo", append(body, 0)), nats.ErrMaxPayload)
}

// testDrain: a drained connection handles what had come, sends what was to be sent, and closes.
func testDrain(t *testing.T, h *natsHost) {
	const n = 500
	closed := make(chan struct{})
	worker := h.connect(nats.ClosedHandler(func(*nats.Conn) { close(closed) }), nats.DrainTimeout(most))
	other := h.connect()
	results, err := other.SubscribeSync("result")
	require.NoError(t, err)
	hold := make(chan struct{})
	_, err = worker.Subscribe("job", func(m *nats.Msg) {
		<-hold // so that the rest waits when the drain begins
		assert.NoError(t, worker.Publish("result", m.Data))
	})
	require.NoError(t, err)
	require.NoError(t, worker.FlushTimeout(most))
	for i := range n {
		require.NoError(t, other.Publish("job", fmt.Append(nil, i)))
	}
	require.NoError(t, other.FlushTimeout(most))
	// The server has sent all of them to the worker before it answers this.
	require.NoError(t, worker.FlushTimeout(most))
	require.NoError(t, worker.Drain())
	close(hold)
	for i := range n {
		m, err := results.NextMsg(most)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(i), string(m.Data))
	}
	await(t, closed, "the drained connection closes")
	require.Eventually(t, func() bool { return h.server().NumClients() == 1 }, most, time.Millisecond)
}

// testSlowSubscription: the client drops what a slow handler has no room for, and says so; the
// connection and its other subscriptions go on.
func testSlowSubscription(t *testing.T, h *natsHost) {
	const n = 100
	slow := make(chan error, n)
	nc := h.connect(nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { slow <- err }))
	hold := make(chan struct{})
	sub, err := nc.Subscribe("news", func(*nats.Msg) { <-hold })
	require.NoError(t, err)
	require.NoError(t, sub.SetPendingLimits(n/10, -1))
	quick, err := nc.SubscribeSync("news")
	require.NoError(t, err)
	for range n {
		require.NoError(t, nc.Publish("news", []byte("today")))
	}
	require.NoError(t, nc.FlushTimeout(most))
	for range n {
		_, err := quick.NextMsg(most)
		require.NoError(t, err)
	}
	select {
	case err := <-slow:
		require.ErrorIs(t, err, nats.ErrSlowConsumer)
	case <-clock.NewTimer(most).C:
		require.FailNow(t, "nobody is told of a slow consumer")
	}
	dropped, err := sub.Dropped()
	require.NoError(t, err)
	require.Positive(t, dropped)
	close(hold)
}

// testSlowConnection: a client that does not read is cut off by the server and holds up nobody; it
// reads what was on its way to it, and then the end.
func testSlowConnection(t *testing.T, h *natsHost) {
	c, err := h.dialer().Dial("", "")
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(clock.Deadline(most)))
	r := textproto.NewReader(bufio.NewReader(c))
	greeting, err := r.ReadLine()
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(greeting, "INFO "), greeting)
	_, err = io.WriteString(c, "CONNECT {\"verbose\":false,\"pedantic\":false}\r\nSUB flood 1\r\nPING\r\n")
	require.NoError(t, err)
	answer, err := r.ReadLine()
	require.NoError(t, err)
	require.Equal(t, "PONG", answer)

	publisher, reader := h.connect(), h.connect()
	sub, err := reader.SubscribeSync("flood")
	require.NoError(t, err)
	require.NoError(t, sub.SetPendingLimits(-1, -1))
	require.NoError(t, reader.FlushTimeout(most))
	body := bytes.Repeat([]byte{'x'}, 1<<20)
	for range 8 {
		require.NoError(t, publisher.Publish("flood", body))
		m, err := sub.NextMsg(most)
		require.NoError(t, err)
		require.Len(t, m.Data, len(body))
	}
	require.Eventually(t, func() bool { return h.server().NumClients() == 2 }, most, time.Millisecond)
	require.EqualValues(t, 1, h.server().NumSlowConsumers())
	_, err = io.Copy(io.Discard, r.R)
	require.NoError(t, err)
}

// testShutdown: a server that ends closes its clients' connections, and a client that may not
// connect again is closed.
func testShutdown(t *testing.T, h *natsHost) {
	closed := make(chan struct{})
	nc := h.connect(nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	sub, err := nc.SubscribeSync("any")
	require.NoError(t, err)
	require.NoError(t, nc.FlushTimeout(most))
	h.stop()
	await(t, closed, "the client learns that the server ended")
	_, err = sub.NextMsg(most)
	require.ErrorIs(t, err, nats.ErrConnectionClosed)
	require.ErrorIs(t, nc.Publish("any", nil), nats.ErrConnectionClosed)
}

// testRestart: clients come back to the server that takes an ended one's place, with what they
// were subscribed to and what they published in between.
func testRestart(t *testing.T, h *natsHost) {
	gone, back := make(chan struct{}), make(chan struct{})
	var once sync.Once // the handler is called at the end, too
	nc := h.connect(
		nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0),
		nats.DisconnectErrHandler(func(*nats.Conn, error) { once.Do(func() { close(gone) }) }),
		nats.ReconnectHandler(func(*nats.Conn) { close(back) }))
	sub, err := nc.SubscribeSync("any")
	require.NoError(t, err)
	require.NoError(t, nc.FlushTimeout(most))
	h.stop()
	await(t, gone, "the client learns that the server ended")
	require.NoError(t, nc.Publish("any", []byte("meanwhile")))
	h.start()
	await(t, back, "the client connects again")
	m, err := sub.NextMsg(most)
	require.NoError(t, err)
	require.Equal(t, "meanwhile", string(m.Data))
}

func await(tb testing.TB, c <-chan struct{}, what string) {
	select {
	case <-c:
	case <-clock.NewTimer(most).C:
		require.FailNow(tb, "does not happen: "+what)
	}
}
