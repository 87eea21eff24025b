package engine_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/interop/efaemu/engine"
)

// mess lets data write the queues and doorbells of a program: 4 bytes select the
// place, then come the bytes written.
func mess(a *prog, data []byte) []byte {
	if len(data) < 4 {
		return nil
	}
	what, at := data[0]%8, int(binary.LittleEndian.Uint16(data[2:]))
	arg := uint32(data[1])
	data = data[4:]
	fill := func(b []byte) {
		n := copy(b[at%len(b):], data[:min(len(data), 16)])
		data = data[n:]
	}
	switch what {
	case 0:
		fill(a.cfg.SQ)
	case 1:
		fill(a.cfg.RQ)
	case 2:
		a.spc += arg % 12
		bell(a.cfg.SQDoorbell, a.spc)
	case 3:
		a.rpc += arg % 12
		bell(a.cfg.RQDoorbell, a.rpc)
	case 4:
		bell(a.cqc.Doorbell, arg<<24|uint32(at))
	case 5:
		bell(a.cfg.SQDoorbell, arg<<8|uint32(at))
	case 6:
		bell(a.cfg.RQDoorbell, arg<<8|uint32(at))
	case 7:
		a.e.Step()
	}
	return data
}

// garble lets a program write garbage, next to another that works on the same card,
// and checks that the garbage affects no other program and comes to an end.
func garble(t testing.TB, data []byte, seed uint64) {
	o := options{sim: sim.Config{Seed: seed}}
	o.dev.MaxRDMA = 4096
	if seed%2 == 1 {
		o.engine.Shuffle = engine.Shuffle{Window: 3, Seed: seed}
	}
	w, a, b := pair(t, o, progConfig{wide: seed%3 == 0, sq: 8, rq: 8, cq: 16})
	c := w.newProg(a.e, progConfig{})
	c.gid = a.gid
	a.buffer(1, 50)
	a.recv(2, a.sge(a.mem.base(), 20), a.sge(a.mem.base()+20, 30))
	b.buffer(1, 50)
	// Requests that are right, for data to change a little.
	for i := range 8 {
		w := rdma(a, b, abi.WorkOp(i%3), a.mem.base(), 100*i)
		a.write(w)
	}
	a.spc = 0
	for len(data) > 0 {
		data = mess(a, data)
	}
	w.run()
	if seed%5 == 0 {
		a.qp.Fail()
		w.run()
	}
	// The others still work.
	c.poll()
	at := b.buffer(9, 100)
	b.poll()
	c.post(c.to(b, inline(1, []byte("still here"))))
	w.run()
	require.Zero(t, c.one().Status)
	got := b.poll()
	require.NotEmpty(t, got)
	if len(got) == 1 && got[0].ReqID == 9 {
		require.Equal(t, "still here", string(b.bytes(at, 10)))
	}
	a.close()
	b.close()
	c.close()
	s := a.e.Stats()
	require.Zero(t, s.QueuePairs+s.CQs+s.MRs+s.AHs+s.PDs)
}

func FuzzGarbage(f *testing.F) {
	f.Add([]byte("\x02\x08\x00\x00\x03\x02\x00\x00\x07\x00\x00\x00"), uint64(0))
	f.Add([]byte("\x00\x00\x00\x000123456789abcdef\x02\x03\x00\x00"), uint64(1))
	f.Add([]byte("\x05\x00\xff\xff\x07\x00\x00\x00\x06\x00\xff\xff"), uint64(5))
	f.Fuzz(garbleFuzz)
}

func garbleFuzz(t *testing.T, data []byte, seed uint64) { garble(t, data[:min(len(data), 4096)], seed) }

// less is a number of seeds: n, or in the short form fewer.
func less(n uint64) uint64 {
	if testenv.Short() {
		return n / 5
	}
	return n
}

// The same with random bytes, many times.
func TestGarbage(t *testing.T) {
	for seed := range less(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(rng.Uint32())
			if rng.IntN(3) == 0 {
				data[i] %= 4
			}
		}
		garble(t, data, seed)
	}
}

// Random traffic over shuffled fabrics with faults: each request and each receive
// completes once, each packet that went well came, whole.
func TestRandomTraffic(t *testing.T) {
	for seed := range less(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		o := options{sim: sim.Config{Seed: seed, Virtual: true, MaxSQ: 1 + rng.IntN(20), RNRDelay: time.Microsecond, Rules: []sim.Rule{
			{Fault: sim.FaultRNR, P: 0.1}, {Fault: sim.FaultQueueFull, P: 0.1}, {Fault: sim.FaultDelay, P: 0.1, Delay: time.Millisecond},
		}}}
		o.engine.Shuffle = engine.Shuffle{Window: rng.IntN(5), Seed: seed}
		w, a, b := pair(t, o, progConfig{sq: 16, rq: 16, cq: 64, rnr: uint8(rng.IntN(8))})
		size := make(map[uint64]int)
		lens := make(map[uint32]int)
		posted, received := 0, 0
		buffers := map[uint64]uint64{}
		for next := 0; next < 300 || len(size) > 0; {
			for posted < 16 && rng.IntN(4) > 0 {
				id := uint16(rng.Uint32())
				if _, ok := buffers[uint64(id)]; !ok {
					buffers[uint64(id)] = b.buffer(id, 2000)
					posted++
				}
			}
			for len(size) < 16 && next < 300 && rng.IntN(4) > 0 {
				n := rng.IntN(2000)
				wqe := send(uint16(next))
				at := a.alloc(pattern(n, next))
				wqe.Length, wqe.SGE = 2, [2]abi.SGE{a.sge(at, n/3), a.sge(at+uint64(n/3), n-n/3)}
				wqe.HasImm, wqe.Imm = true, uint32(next)
				a.post(a.to(b, wqe))
				size[uint64(next)] = n
				lens[uint32(next)] = n
				next++
			}
			for range rng.IntN(20) {
				a.e.Step()
				b.e.Step()
				w.fab.Step()
			}
			w.fab.AdvanceTo(w.clk.Now().Add(100 * time.Microsecond))
			for _, c := range a.poll() {
				_, ok := size[c.ReqID]
				require.True(t, ok, "seed %d: completed twice: %d", seed, c.ReqID)
				delete(size, c.ReqID)
				if c.Status != 0 {
					require.Equal(t, uint8(10), c.Status)
					delete(lens, uint32(c.ReqID))
				}
			}
			for _, c := range b.poll() {
				at, ok := buffers[c.ReqID]
				require.True(t, ok, "seed %d: receive %d twice", seed, c.ReqID)
				delete(buffers, c.ReqID)
				posted--
				received++
				n := int(c.Length)
				require.Equal(t, pattern(n, int(c.Imm)), b.bytes(at, n))
				if want, ok := lens[c.Imm]; ok {
					require.Equal(t, want, n)
				}
				delete(lens, c.Imm)
				if b.next > b.mem.base()+900_000 {
					b.next = b.mem.base()
				}
			}
			if a.next > a.mem.base()+900_000 {
				a.next = a.mem.base()
			}
		}
		w.run()
		for _, c := range b.poll() {
			delete(lens, c.Imm)
			received++
		}
		require.Empty(t, lens, "seed %d: what completed well has come", seed)
		require.Greater(t, received, 10)
		w.clean()
	}
}
