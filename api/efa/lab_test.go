package efa_test

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// lab describes two endpoints in two domains, each with a queue of its own.
type lab struct {
	shm   bool                        // else a simulated device like dev, or
	tcp   bool                        // one of loopback
	wrap  func(efa.Device) efa.Device // of the second endpoint, unless nil
	dev   sim.DeviceConfig
	other *sim.DeviceConfig // of the second endpoint, if not like dev
	fab   sim.Config
	mode  efa.Progress
	ep    efa.EndpointConfig
	depth int // of the queues
}

func (l lab) open(t testing.TB) (a, b *side) {
	t.Helper()
	l.fab.InOrder = true
	var f *sim.Fabric
	dir := ""
	switch {
	case l.tcp:
	case l.shm:
		dir = filepath.Join(t.TempDir(), "fabric")
	default:
		f = newFabric(t, l.fab)
	}
	mk := func(dev sim.DeviceConfig, second bool) *side {
		var d efa.Device
		var err error
		switch {
		case l.tcp:
			d, err = efa.OpenDevice("tcp")
		case l.shm:
			d, err = shm.Open(shm.Config{Dir: dir})
		default:
			d, err = f.OpenDevice(dev)
		}
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		if second && l.wrap != nil {
			d = l.wrap(d)
		}
		dom := domainOn(t, d, efa.DomainConfig{Progress: l.mode})
		c := l.ep
		c.SendQueue = newQueue(t, dom, l.depth)
		c.RecvQueue = c.SendQueue
		return newEndpoint(t, dom, c)
	}
	a = mk(l.dev, false)
	if l.other != nil {
		l.dev = *l.other
	}
	b = mk(l.dev, true)
	introduce(t, a, b)
	return a, b
}

// marker sends an empty message. On a fabric that keeps the order what a did before
// has been done at b when it returns.
func marker(t testing.TB, a, b *side) {
	t.Helper()
	op := start(t, a, &efa.SendReq{To: a.peer})
	_, err := b.ep.Recv(testContext(t), nil)
	require.NoError(t, err)
	done(t, op)
}

func start(t testing.TB, s *side, r efa.Request) *efa.Op {
	t.Helper()
	op, err := s.ep.Start(r)
	require.NoError(t, err)
	return op
}

// post posts a request of any kind.
func post(ep *efa.Endpoint, r efa.Request) (efa.OpID, error) {
	switch r := r.(type) {
	case *efa.SendReq:
		return ep.PostSend(r)
	case *efa.RecvReq:
		return ep.PostRecv(r)
	case *efa.WriteReq:
		return ep.PostWrite(r)
	case *efa.ReadReq:
		return ep.PostRead(r)
	default:
		return ep.PostAtomic(r.(*efa.AtomicReq))
	}
}

// done waits for an operation that must succeed.
func done(t testing.TB, op *efa.Op) efa.Completion {
	t.Helper()
	c, err := op.Wait(testContext(t))
	require.NoError(t, err)
	return c
}

// next reads one completion.
func next(t testing.TB, s *side) efa.Completion {
	t.Helper()
	var cs [1]efa.Completion
	_, err := s.ep.SendQueue().Read(testContext(t), cs[:])
	require.NoError(t, err)
	return cs[0]
}

// alloc gives memory with a pattern in it, and closes it in the end.
func alloc(t testing.TB, s *side, n int, a efa.Access) *efa.MemoryRegion {
	t.Helper()
	m, err := s.dom.Alloc(n, a)
	require.NoError(t, err)
	copy(m.Bytes(), pattern(n))
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

const remote = efa.AccessRemoteRead | efa.AccessRemoteWrite

// maxRDMA is what they move at a time; longer requests are carried out in parts, each
// by itself.
const maxRDMA = 80_000

// devices are kinds of simulated device that behave differently.
var devices = map[string]sim.DeviceConfig{
	"plain":            {},
	"reads":            {RDMARead: true, LocalKeys: true, MaxRDMA: maxRDMA},
	"writes":           {RDMAWrite: true, UnsolicitedWrite: true, MaxRDMA: maxRDMA},
	"reads and writes": {RDMARead: true, RDMAWrite: true, LocalKeys: true, UnsolicitedWrite: true, MaxRDMA: maxRDMA},
}

// everywhere runs f on each kind of device, and in each progress mode on one.
func everywhere(t *testing.T, ec efa.EndpointConfig, f func(t *testing.T, a, b *side)) {
	for name, dev := range someDevices(t) {
		t.Run("sim "+name, func(t *testing.T) {
			a, b := lab{dev: dev, ep: ec}.open(t)
			f(t, a, b)
		})
	}
	for _, mode := range some(t, modes) {
		t.Run("shm "+mode.String(), func(t *testing.T) {
			a, b := lab{shm: true, mode: mode, ep: ec}.open(t)
			f(t, a, b)
		})
	}
}

// some is the whole list, or with -short one of it: another one in another test, so that
// each has its share of them.
func some[T any](t *testing.T, all []T) []T {
	if !testing.Short() {
		return all
	}
	i := len(t.Name()) % len(all)
	return all[i : i+1]
}

// someDevices are devices, or with -short one of them.
func someDevices(t *testing.T) map[string]sim.DeviceConfig {
	m := make(map[string]sim.DeviceConfig)
	for _, name := range some(t, slices.Sorted(maps.Keys(devices))) {
		m[name] = devices[name]
	}
	return m
}

// less is how often to do something: n times, or with -short fewer.
func less(n int) int {
	if testing.Short() {
		return max(1, n/4)
	}
	return n
}

// isAny reports whether err is one of these.
func isAny(err error, these ...error) bool {
	return slices.ContainsFunc(these, func(x error) bool { return errors.Is(err, x) })
}
