package nic

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// handClock is moved by the test.
type handClock struct{ now clock.Time }

func (c *handClock) Now() clock.Time { return c.now }

// attempt is a call of Send.
type attempt struct {
	at    clock.Time
	token uint64
	bytes string
	ah    device.AH
}

// fakeCarrier answers as the test says and reports what the test says.
type fakeCarrier struct {
	clk      *handClock
	answer   func(wr *device.SendWR) device.Status
	attempts []attempt
	rdma     []device.SendWR // of them, RDMA
	routes   map[device.AH]device.GID
	noRoute  error
	posted   []int32
	arrivals []device.Completion
	timer    bool // WakeAt works
	wake     clock.Time
	armed    bool
	bells    int
	closed   int
}

func (c *fakeCarrier) Route(ah device.AH, gid device.GID) error {
	if c.noRoute != nil {
		return c.noRoute
	}
	c.routes[ah] = gid
	return nil
}

func (c *fakeCarrier) Unroute(ah device.AH) { delete(c.routes, ah) }

func (c *fakeCarrier) Send(wr *device.SendWR, token uint64) device.Status {
	c.attempts = append(c.attempts, attempt{c.clk.now, token, string(wr.Header) + string(wr.Payload), wr.AH})
	return c.answer(wr)
}

func (c *fakeCarrier) RDMA(wr *device.SendWR, token uint64) device.Status {
	c.rdma = append(c.rdma, *wr)
	return c.Send(wr, token)
}

func (c *fakeCarrier) Doorbell()              { c.bells++ }
func (c *fakeCarrier) PostRecv(slots []int32) { c.posted = append(c.posted, slots...) }

func (c *fakeCarrier) Poll(b []device.Completion) int {
	n := copy(b, c.arrivals)
	c.arrivals = slices.Delete(c.arrivals, 0, n)
	c.armed = false
	return n
}

func (c *fakeCarrier) Arm() bool {
	c.armed = len(c.arrivals) == 0
	return c.armed
}

func (c *fakeCarrier) WakeAt(t clock.Time) bool {
	c.wake = t
	return c.timer
}

func (c *fakeCarrier) FDs() []int { return []int{42} }

func (c *fakeCarrier) Close() error {
	c.closed++
	return nil
}

const (
	testMTU   = 128
	testDepth = 4
	testSlots = 3
)

var testGID = device.GID{0xfe, 0x80, 15: 1}

// start opens a queue pair over a fake, with a handle of testGID.
func start(t testing.TB, change func(*Config)) (*QP, *fakeCarrier, device.AH) {
	t.Helper()
	c := &fakeCarrier{clk: &handClock{now: 1000}, routes: map[device.AH]device.GID{}}
	c.answer = func(*device.SendWR) device.Status { return device.StatusOK }
	cfg := validConfig(c)
	if change != nil {
		change(&cfg)
	}
	q, err := New(cfg)
	require.NoError(t, err)
	ah, err := q.CreateAH(testGID)
	require.NoError(t, err)
	return q, c, ah
}

func validConfig(c *fakeCarrier) Config {
	return Config{
		Carrier: c, Clock: c.clk, QPN: 5, Depth: testDepth, MTU: testMTU,
		CopiesAtPost: true, RNRDelay: 10 * time.Microsecond,
		Slots: testSlots, Recv: make([]byte, testSlots*200), Stride: 200,
	}
}

func answer(st device.Status) func(*device.SendWR) device.Status {
	return func(*device.SendWR) device.Status { return st }
}

// drain polls everything that is ready.
func drain(q *QP) []device.Completion {
	var all []device.Completion
	var c [3]device.Completion
	for {
		n := q.Poll(c[:])
		if n == 0 {
			return all
		}
		all = append(all, c[:n]...)
	}
}
