package devicetest

import (
	"bytes"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var rdmaEndCases = []testCase{
	{name: "RDMAEnds/region", devices: 3, run: (*world).endRegion, needs: (*Fabric).reads},
	{name: "RDMAEnds/written", devices: 2, run: (*world).endWritten, needs: (*Fabric).writes},
	{name: "RDMAEnds/requester", devices: 2, run: (*world).endRequester, needs: (*Fabric).rdma},
	{name: "RDMAEnds/receiver", devices: 2, run: (*world).endReceiver, needs: (*Fabric).rdma},
	{name: "RDMAEnds/local", devices: 2, run: (*world).endLocal, needs: (*Fabric).localKeys},
	{name: "RDMAEnds/death", devices: 2, run: (*world).endDeath, needs: func(f *Fabric) bool { return f.rdma() && f.canKill() }},
}

// closer closes a region after a number of looks.
type closer struct {
	*node
	mr     device.MR
	looks  int
	closed bool
}

func (c *closer) finished() bool { return c.closed }
func (c *closer) String() string { return fmt.Sprintf("looked %d times", c.looks) }

func (c *closer) step() error {
	c.poll()
	if c.looks++; c.looks < 50 || c.closed {
		return nil
	}
	c.closed = true
	return c.mr.Close()
}

// endRegion closes a region in the middle of reads: each ends, with the right bytes
// or with a status, and none touches the memory afterwards.
func (w *world) endRegion() {
	const size = 50_000
	for round := range 10 {
		host := w.open(2, device.QPConfig{})
		w.drop(host)
		mr := w.alloc(2, size, canRead)
		mem := fill(mr.Bytes(), 3)
		whole := bytes.Clone(mem)
		if round%2 == 1 { // memory that stays after Close, if it can be reached
			if other := w.owned(w.f.Devices[2].Register(bytes.Clone(whole), canRead)); other.Remote() {
				mr = other
			}
		}
		workers := []worker{&closer{node: host, mr: mr}}
		for i := range 4 {
			r := w.reader(i/2, 1<<40, host, mr, whole)
			r.mayEnd = true
			w.drop(r.node)
			workers = append(workers, r)
		}
		w.drive(workers)
	}
}

// endWritten closes a region with writes in progress: its memory does not change
// from then on.
func (w *world) endWritten() {
	const size = 9_000
	for round := range 20 {
		a := w.open(0, device.QPConfig{SQDepth: 16})
		b := w.open(1, device.QPConfig{})
		mem := make([]byte, size)
		mr := w.owned(w.f.Devices[1].Register(mem, canWrite))
		if !mr.Remote() {
			mr = w.alloc(1, size, canWrite)
			mem = nil
		}
		to, o := a.ah(b), a.own(size)
		fill(o.b, 4)
		for range 8 {
			require.NoError(w, a.PostSend(a.rdma(device.WRWrite, to, b, o, mr, 0)))
		}
		a.Doorbell()
		for range round % 5 {
			w.turn()
		}
		require.NoError(w, mr.Close())
		was := fill(mem, 5)
		w.until("the end of all writes", func() bool { return len(a.sends) == int(a.nextID) })
		for id, st := range a.sends {
			require.True(w, st == device.StatusOK || st == device.StatusBadAddress, "write %d: %v", id, st)
		}
		require.True(w, sameAs(was, 5, len(was)))
	}
}

// endRequester closes a queue pair with requests in progress: its memory is free
// again.
func (w *world) endRequester() {
	for round := range 20 {
		p := newProbe(w, 8000)
		p.reset()
		for _, kind := range w.kinds() {
			for range 4 {
				require.NoError(w, p.a.PostSend(p.a.rdma(kind, p.to, p.b, p.o, p.mr, 0)))
			}
		}
		p.a.Doorbell()
		for range round % 4 {
			w.turn()
		}
		w.drop(p.a)
		require.NoError(w, p.a.Close())
		clear(p.o.b)
		w.idle()
		require.Equal(w, make([]byte, 8000), p.o.b)
		w.drop(p.b)
	}
}

// endReceiver closes the other queue pair with requests in progress: each ends.
func (w *world) endReceiver() {
	for round := range 20 {
		p := newProbe(w, 3000)
		kinds := w.kinds()
		for i := range 8 {
			require.NoError(w, p.a.PostSend(p.a.rdma(kinds[i%len(kinds)], p.to, p.b, p.o.at(0, 1000), p.mr, 0)))
		}
		p.a.Doorbell()
		for range round % 4 {
			w.turn()
		}
		w.drop(p.b)
		require.NoError(w, p.b.Close())
		w.until("the end of all requests", func() bool { return len(p.a.sends) == 8 })
		for id, st := range p.a.sends {
			require.True(w, st == device.StatusOK || st.Gone(), "request %d: %v", id, st)
		}
		w.drop(p.a)
	}
}

// endLocal closes the region at the requester's side.
func (w *world) endLocal() {
	for round := range 20 {
		p := newProbe(w, 3000)
		for _, kind := range w.kinds() {
			for range 4 {
				require.NoError(w, p.a.PostSend(p.a.rdma(kind, p.to, p.b, p.o, p.mr, 0)))
			}
		}
		p.a.Doorbell()
		for range round % 4 {
			w.turn()
		}
		require.NoError(w, p.o.mr.Close())
		w.until("the end of all requests", func() bool { return len(p.a.sends) == int(p.a.nextID) })
		for id, st := range p.a.sends {
			require.True(w, st == device.StatusOK || st == device.StatusInvalidLKey, "request %d: %v", id, st)
		}
	}
}

// endDeath: RDMA to the dead ends as packets to them do.
func (w *world) endDeath() {
	p := newProbe(w, 1000)
	kinds := w.kinds()
	p.move(kinds[0], 0, 0, 1000)
	for range 5 {
		p.a.post(p.a.rdma(kinds[0], p.to, p.b, p.o, p.mr, 0))
	}
	w.drop(p.b)
	w.f.Kill(1)
	for _, kind := range kinds {
		st := p.a.status(p.a.post(p.a.rdma(kind, p.to, p.b, p.o, p.mr, 0)))
		require.True(w, st.Gone(), st.String())
	}
	w.until("the end of all requests", func() bool { return len(p.a.sends) == int(p.a.nextID) })
	for id, st := range p.a.sends {
		require.True(w, st == device.StatusOK || st.Gone(), "request %d: %v", id, st)
	}
}
