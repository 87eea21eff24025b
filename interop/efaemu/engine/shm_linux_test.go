package engine_test

import (
	"context"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/engine"
	"github.com/efactor/efactor/interop/efaemu/finding"
	"github.com/efactor/efactor/runtime/clock"
)

// host is a directory of shared memory with cards that run by themselves.
type host struct {
	*world
	dir  string
	devs []device.Device
	stop []func()
}

func newHost(t testing.TB, change func(*engine.Config), cards int) *host {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "efactor-test-") //nolint:usetesting // not on a disk
	require.NoError(t, err)
	h := &host{world: &world{t: t, log: new(finding.Log), spaces: map[int]*space{}, running: true}, dir: dir}
	procs := runtime.GOMAXPROCS(8) // each engine keeps one, asleep or not
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	for range cards {
		d := h.open()
		cfg := engine.Config{Profile: everything(), Device: d, Clock: clock.System, Findings: h.log}
		if change != nil {
			change(&cfg)
		}
		e := engine.New(cfg)
		h.engines = append(h.engines, e)
		h.gids = append(h.gids, d.Info().GID)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() { e.Run(ctx) })
		h.stop = append(h.stop, func() { cancel(); wg.Wait() })
	}
	t.Cleanup(func() {
		for _, stop := range h.stop {
			stop()
		}
		for _, d := range h.devs {
			assert.NoError(t, d.Close())
		}
		names, err := os.ReadDir(dir)
		assert.NoError(t, err)
		assert.Empty(t, names, "nothing is left behind")
		_ = os.RemoveAll(dir)
	})
	return h
}

func (h *host) open() device.Device {
	h.t.Helper()
	d, err := shm.Open(shm.Config{Dir: h.dir})
	require.NoError(h.t, err)
	h.devs = append(h.devs, d)
	return d
}

func (h *host) prog(card int, c progConfig) *prog {
	h.t.Helper()
	c.self = true
	p := h.newProg(h.engines[card], c)
	p.gid = h.gids[card]
	h.t.Cleanup(p.close)
	return p
}

// wait polls until there is a completion.
func (p *prog) wait() []abi.CQE {
	p.t.Helper()
	deadline := clock.System.Now().Add(time.Minute)
	for clock.System.Now() < deadline {
		if got := p.poll(); len(got) > 0 {
			return got
		}
		runtime.Gosched()
	}
	p.t.Fatal("no completion")
	return nil
}

// until polls until the request or receive id of the queue has completed, and drops
// what comes before.
func (p *prog) until(queue abi.QueueType, id uint64) abi.CQE {
	p.t.Helper()
	for {
		for _, c := range p.wait() {
			if c.Queue == queue && c.ReqID == id {
				return c
			}
		}
	}
}

func TestPingPongOverSharedMemory(t *testing.T) {
	for name, change := range map[string]func(*engine.Config){
		"plain":    nil,
		"shuffled": func(c *engine.Config) { c.Shuffle = engine.Shuffle{Window: 4, Seed: 1} },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t, change, 2)
			a, b := h.prog(0, progConfig{rnr: 7}), h.prog(1, progConfig{rnr: 7})
			from, to := [2]*prog{a, b}, [2]*prog{b, a}
			var at [2]uint64
			for i := range at {
				at[i] = to[i].alloc(make([]byte, 8000))
			}
			for i := range 200 {
				n := i * 40
				for k := range from {
					to[k].recv(uint16(i), to[k].sge(at[k], 100), to[k].sge(at[k]+100, 7900))
					src := from[k].mem.base() + 500_000
					copy(from[k].bytes(src, n), pattern(n, i+k))
					wqe := send(uint16(i))
					wqe.Length, wqe.SGE = 2, [2]abi.SGE{from[k].sge(src, n/2), from[k].sge(src+uint64(n/2), n-n/2)}
					from[k].post(from[k].to(to[k], wqe))
					got := to[k].until(abi.RecvQueue, uint64(i))
					require.Zero(t, got.Status)
					require.Equal(t, n, int(got.Length))
					require.Equal(t, pattern(n, i+k), to[k].bytes(at[k], n))
				}
			}
			h.clean()
		})
	}
}

// RDMA into programs, in pieces of shared memory's maximum.
func TestRDMAOverSharedMemory(t *testing.T) {
	h := newHost(t, nil, 2)
	require.True(t, h.devs[0].Info().Foreign)
	const n = 1<<20 + 100
	a, b := h.prog(0, progConfig{memory: 4 << 20}), h.prog(1, progConfig{memory: 4 << 20})
	copy(b.mem.mem, pattern(n, 1))
	a.post(rdma(a, b, abi.WorkRead, a.mem.base()+5, n))
	require.Zero(t, a.wait()[0].Status)
	require.Equal(t, pattern(n, 1), a.mem.mem[5:5+n])

	copy(a.mem.mem, pattern(n, 2))
	b.buffer(3, 10)
	wqe := rdma(a, b, abi.WorkWrite, a.mem.base(), n)
	wqe.HasImm, wqe.Imm = true, 5
	a.qp.Close() // a queue pair that retries, since b may not have seen the receive
	a = h.prog(0, progConfig{memory: 4 << 20, rnr: 7})
	copy(a.mem.mem, pattern(n, 2))
	wqe.SGE[0] = a.sge(a.mem.base(), n)
	a.post(a.to(b, wqe))
	got := b.wait()[0]
	require.Zero(t, got.Status)
	require.Equal(t, uint32(5), got.Imm)
	require.Equal(t, pattern(n, 2), b.mem.mem[:n])
	require.Zero(t, a.wait()[0].Status)

	b.mr.Close()
	a.post(rdma(a, b, abi.WorkRead, a.mem.base(), 100))
	require.Equal(t, device.StatusBadAddress, device.Status(a.wait()[0].Status))
	h.clean()
}

// A program and a queue pair that is the device's own, as an endpoint has it.
func TestProgramAndEndpoint(t *testing.T) {
	h := newHost(t, nil, 1)
	p := h.prog(0, progConfig{rnr: 7})
	q, err := h.open().OpenQP(device.QPConfig{QKey: 0x77, RNRRetry: 7})
	require.NoError(t, err)
	defer func() { require.NoError(t, q.Close()) }()
	ah, err := q.CreateAH(p.gid)
	require.NoError(t, err)
	q.PostRecv([]int32{0})
	poll := func() device.Completion {
		var c [1]device.Completion
		for deadline := clock.System.Now().Add(time.Minute); clock.System.Now() < deadline; runtime.Gosched() {
			if q.Poll(c[:]) > 0 {
				return c[0]
			}
		}
		t.Fatal("nothing came")
		return c[0]
	}
	wqe := inline(1, []byte("ping"))
	wqe.AH, wqe.DestQPN, wqe.QKey = p.ah(p.gid), q.QPN(), 0x77
	p.post(wqe)
	c := poll()
	require.Equal(t, device.OpRecv, c.Op)
	require.Equal(t, "ping", string(q.RecvBytes(0)[:c.Len]))
	require.Equal(t, p.qp.Number(), c.SrcQPN)

	at := p.buffer(1, 10)
	require.NoError(t, q.PostSend(&device.SendWR{AH: ah, QPN: p.qp.Number(), QKey: p.qkey, Payload: []byte("pong")}))
	q.Doorbell()
	require.Equal(t, device.StatusOK, poll().Status)
	got := p.until(abi.RecvQueue, 1)
	require.Equal(t, "pong", string(p.bytes(at, 4)))
	require.Equal(t, p.ah(p.gid), got.AH)
	h.clean()
}

// With the queues closed while traffic runs, nothing is left and nothing breaks.
func TestCloseUnderTraffic(t *testing.T) {
	h := newHost(t, func(c *engine.Config) { c.Profile.QPNReuse = true }, 2)
	b := h.prog(1, progConfig{rq: 64, cq: 256})
	first := uint16(0)
	for i := range 30 {
		a := h.newProg(h.engines[0], progConfig{self: true, sq: 64, cq: 128, rnr: uint8(i % 8)})
		a.gid = h.gids[0]
		if first == 0 {
			first = a.qp.Number()
		}
		require.Equal(t, first, a.qp.Number(), "it got its number back")
		for k := range 60 {
			if k%2 == 0 && b.rpc < 64 {
				b.buffer(uint16(k), 64)
			}
			a.write(a.to(b, inline(uint16(k), pattern(30, k))))
		}
		a.post(rdma(a, b, abi.WorkRead, a.mem.base(), 1<<19))
		a.wait()
		if i%2 == 0 {
			a.qp.Fail()
		}
		a.close()
		b.poll()
	}
	h.clean()
}

// A receive that a program posted before it sent is there when the packet comes,
// whichever of the two queue pairs is the older one.
func TestReceiveBeforeSend(t *testing.T) {
	h := newHost(t, nil, 1)
	a, b := h.prog(0, progConfig{}), h.prog(0, progConfig{})
	for i := range 200 {
		b.buffer(uint16(i), 10)
		a.post(a.to(b, inline(uint16(i), nil)))
		require.Equal(t, device.StatusOK, device.Status(a.until(abi.SendQueue, uint64(i)).Status))
		b.until(abi.RecvQueue, uint64(i))
		a, b = b, a
	}
	h.clean()
}
