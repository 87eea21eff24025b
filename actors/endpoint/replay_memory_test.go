package endpoint_test

import (
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// madeUp is where regions lie of which the capture has no address.
const madeUp = 0x7e0000000000

// register makes a region of a buffer of the operation's, as libfabric does with
// every buffer that RDMA may concern, unless the process could not.
func (r *replay) register(buf []byte, op *operation) {
	if r.env("EFASHIM_RDMA_READ", 1) == 0 || !r.registers(len(buf)) {
		return
	}
	r.keys++
	at := wire.RMAIOV{Addr: madeUp + uint64(r.keys)<<24, Key: uint64(r.keys)}
	for _, p := range r.s.Packets[op.first.Seq:] {
		if p.Op != op.first.Op || p.Seed != op.first.Seed {
			break
		}
		if p.From != r.side || p.Hex == nil || p.Type == golden.Headerless {
			continue
		}
		if iov := readIOV(r.decode(p).pkt); len(iov) > 0 {
			at = iov[0]
			break
		}
	}
	r.registerAt(buf, at.Addr, at.Key)
}

// registerAt makes a region with the address and key that the capture says.
func (r *replay) registerAt(mem []byte, addr, key uint64) {
	r.keys++
	x, err := r.rig.RegisterAt(fmt.Sprintf("m%d", r.keys), mem,
		script.Rights{Send: true, Recv: true, RemoteRead: true, RemoteWrite: true}, addr, key)
	require.NoError(r.t, err)
	r.regions = append(r.regions, x)
}

// outstanding is the buffer of sends that are left outstanding: one for all of
// them, which stays.
func (r *replay) outstanding(n int) []byte {
	for _, x := range r.kept {
		if len(x.Bytes()) == n {
			return x.Bytes()
		}
	}
	buf := make([]byte, n)
	before := len(r.regions)
	r.register(buf, r.now)
	r.kept = append(r.kept, r.regions[before:]...)
	r.regions = r.regions[:before]
	return buf
}

// readIOV is the memory of the sender's that a packet offers to be read.
func readIOV(pkt wire.Packet) []wire.RMAIOV {
	switch h := pkt.(type) {
	case *wire.LongReadRTM:
		return h.ReadIOV[:h.ReadIOVCount]
	case *wire.RuntReadRTM:
		return h.ReadIOV[:h.ReadIOVCount]
	case *wire.LongReadRTW:
		return h.ReadIOV[:h.ReadIOVCount]
	default:
		return nil
	}
}

// share lets our device reach the memory that a packet of the other side offers.
func (r *replay) share(pkt wire.Packet) {
	if r.now.name == "" {
		return // nobody receives it
	}
	if r.env("EFASHIM_FAIL_READ", 0) != 0 {
		return // so that reads of it fail, with the status that was captured
	}
	off := uint64(0)
	for _, v := range readIOV(pkt) {
		r.reachable(v.Addr, v.Key, r.now.data()[off:][:v.Len])
		off += v.Len
	}
}

// reachable is memory of the other side's that our device reaches during the
// operation in progress.
func (r *replay) reachable(addr, key uint64, b []byte) {
	for _, m := range r.theirs {
		if m.Addr == addr && m.Key == key {
			m.Bytes = b
			return
		}
	}
	m := &script.Memory{GID: r.other.Addr.GID(), QPN: r.other.Addr.QPN(), Addr: addr, Key: key, Bytes: b}
	r.theirs = append(r.theirs, m)
	r.rig.QP.AddMemory(m)
}

// reach finds the memory of ours that an RDMA request of the other side names, and
// where in its region that begins.
func (r *replay) reach(p golden.Packet) (b []byte, off int) {
	for _, x := range r.regions {
		if x.Key(0) != p.WRRKey || p.WRAddr < x.Addr(0) {
			continue
		}
		off := p.WRAddr - x.Addr(0)
		require.LessOrEqual(r.t, off+uint64(p.Len), uint64(len(x.Bytes())), "packet %d", p.Seq)
		return x.Bytes()[off:][:p.Len], int(off)
	}
	require.Fail(r.t, "RDMA to memory that we did not offer", "packet %d", p.Seq)
	return nil, 0
}

// withdraw closes the memory that the operation in progress had offered.
func (r *replay) withdraw() {
	for _, x := range r.regions {
		r.rig.CloseRegion(x)
		require.True(r.t, x.Closed, x.Name)
	}
	r.regions = nil
	for _, m := range r.theirs {
		m.Bytes = nil
	}
}
