package efa_test

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
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

// some is the whole list, or in the short form one of it: another one in another test, so that
// each has its share of them.
func some[T any](t *testing.T, all []T) []T {
	if !testenv.Short() {
		return all
	}
	i := len(t.Name()) % len(all)
	return all[i : i+1]
}

// someDevices are devices, or in the short form one of them.
func someDevices(t *testing.T) map[string]sim.DeviceConfig {
	m := make(map[string]sim.DeviceConfig)
	for _, name := range some(t, slices.Sorted(maps.Keys(devices))) {
		m[name] = devices[name]
	}
	return m
}

// less is how often to do something: n times, or in the short form fewer.
func less(n int) int {
	if testenv.Short() {
		return max(1, n/4)
	}
	return n
}

// isAny reports whether err is one of these.
func isAny(err error, these ...error) bool {
	return slices.ContainsFunc(these, func(x error) bool { return errors.Is(err, x) })
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// side is an endpoint with everything that it needs, and its handle of the other.
type side struct {
	dom  *efa.Domain
	av   *efa.AddressVector
	ep   *efa.Endpoint
	peer efa.Addr
}

// fewestAllocs is how many allocations a call makes that need not sleep: the fewest of
// some tries, since on a busy machine many must.
func fewestAllocs(runs int, call func()) float64 {
	least := testing.AllocsPerRun(runs, call)
	for range 19 {
		if least == 0 {
			break
		}
		least = min(least, testing.AllocsPerRun(runs, call))
	}
	return least
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, dev efa.Device, dc efa.DomainConfig) *side {
	t.Helper()
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(dc)
	require.NoError(t, err)
	av := dom.NewAddressVector()
	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av})
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	t.Cleanup(func() {
		require.NoError(t, ep.Close())
		require.NoError(t, dom.Close())
		require.NoError(t, fab.Close())
	})
	return &side{dom: dom, av: av, ep: ep}
}

func newFabric(t testing.TB, cfg sim.Config) *sim.Fabric {
	t.Helper()
	f, err := sim.New(cfg)
	require.NoError(t, err)
	return f
}

func newDevice(t testing.TB, f *sim.Fabric) efa.Device {
	t.Helper()
	d, err := f.OpenDevice(sim.DeviceConfig{})
	require.NoError(t, err)
	return d
}

// newPair makes two endpoints in two domains that know each other.
func newPair(t testing.TB, dc efa.DomainConfig) (a, b *side) {
	t.Helper()
	f := newFabric(t, sim.Config{InOrder: true})
	a = open(t, newDevice(t, f), dc)
	b = open(t, newDevice(t, f), dc)
	introduce(t, a, b)
	return a, b
}

func introduce(t testing.TB, a, b *side) {
	t.Helper()
	var err error
	a.peer, err = a.av.Insert(b.ep.Address())
	require.NoError(t, err)
	b.peer, err = b.av.Insert(a.ep.Address())
	require.NoError(t, err)
}

// newHub makes n endpoints; all but the first know the first.
func newHub(t testing.TB, n int) []*side {
	t.Helper()
	f := newFabric(t, sim.Config{Seed: 7})
	var all []*side
	for i := range n {
		s := open(t, newDevice(t, f), efa.DomainConfig{})
		if i > 0 {
			introduce(t, s, all[0])
		}
		all = append(all, s)
	}
	return all
}

func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i>>8)
	}
	return p
}

// openDomain makes a domain on a simulated device; what was opened in it later is
// closed before it.
func openDomain(t testing.TB, f *sim.Fabric, cfg efa.DomainConfig) *efa.Domain {
	t.Helper()
	return domainOn(t, newDevice(t, f), cfg)
}

func domainOn(t testing.TB, dev efa.Device, cfg efa.DomainConfig) *efa.Domain {
	t.Helper()
	fab, err := efa.Open(efa.Config{Device: dev})
	require.NoError(t, err)
	dom, err := fab.OpenDomain(cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, dom.Close())
		require.NoError(t, fab.Close())
	})
	return dom
}

// newEndpoint makes an enabled endpoint with an address vector of its own unless
// cfg has one.
func newEndpoint(t testing.TB, dom *efa.Domain, cfg efa.EndpointConfig) *side {
	t.Helper()
	if cfg.AV == nil {
		cfg.AV = dom.NewAddressVector()
	}
	ep, err := dom.NewEndpoint(cfg)
	require.NoError(t, err)
	require.NoError(t, ep.Enable(context.Background()))
	t.Cleanup(func() { require.NoError(t, ep.Close()) })
	return &side{dom: dom, av: cfg.AV, ep: ep}
}

func newQueue(t testing.TB, dom *efa.Domain, depth int) *efa.Queue {
	t.Helper()
	q, err := dom.NewQueue(depth)
	require.NoError(t, err)
	return q
}

// within runs f and fails if it hangs.
func within(t testing.TB, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-testContext(t).Done():
		t.Fatalf("%s hangs", what)
	}
}

// closed gives a device that closes with the test.
func closed(t *testing.T) func(efa.Device, error) efa.Device {
	return func(d efa.Device, err error) efa.Device {
		t.Helper()
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, d.Close()) })
		return d
	}
}
