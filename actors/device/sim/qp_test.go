package sim_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/runtime/clock"
)

const anyAccess = device.LocalWrite | device.RemoteRead | device.RemoteWrite

var able = sim.DeviceConfig{RDMARead: true, RDMAWrite: true}

// joinAble is join on a device of its own with the given abilities.
func joinAble(t testing.TB, f *sim.Fabric, dc sim.DeviceConfig, cfg device.QPConfig) *party {
	t.Helper()
	d, err := f.OpenDevice(dc)
	require.NoError(t, err)
	return joinOn(t, d, cfg)
}

// region registers s for anything.
func (p *party) region(s string) device.MR {
	p.t.Helper()
	mr, err := p.dev.Register([]byte(s), anyAccess)
	require.NoError(p.t, err)
	return mr
}

func (p *party) post(wr *device.SendWR) {
	p.t.Helper()
	require.NoError(p.t, p.PostSend(wr))
	p.Doorbell()
}

func TestRDMALog(t *testing.T) {
	var log bytes.Buffer
	f := newFabric(t, sim.Config{Virtual: true, InOrder: true, Delay: 3 * time.Microsecond, Hook: sim.TextLog(&log), Seed: 1})
	a, b := joinAble(t, f, able, device.QPConfig{}), joinAble(t, f, able, device.QPConfig{QPN: 9, QKey: 0xbeef})
	mr := b.region("remote memory")
	require.Equal(t, uint64(2<<40), mr.Addr())
	local := []byte("abc")
	a.post(a.rdma(1, b, device.WRRead, local, mr))
	run(f, a, b)
	require.Equal(t, "rem", string(local))
	wr := a.rdma(2, b, device.WRWrite, []byte("abc"), mr)
	wr.Remote += 2
	wr.HasImm, wr.Imm = true, 0x77
	a.post(wr)
	run(f, a, b)
	require.Equal(t, "reabce memory", string(mr.Bytes()))
	wr.ID, wr.Kind, wr.HasImm = 3, device.WRRead, false
	wr.Remote = 5
	a.post(wr)
	run(f, a, b)
	require.Equal(t, map[uint64]device.Status{1: 0, 2: 0, 3: device.StatusBadAddress}, a.sent)
	key := fmt.Sprintf("rkey=%08x", mr.RKey())
	require.Equal(t, `0 open fe80:0:0:0:0:0:0:1/1
0 open fe80:0:0:0:0:0:0:2/9
0 post #1 A -> B qkey=0000beef read KEY remote=20000000000 len=3
3000 arrive #1 A -> B qkey=0000beef read KEY remote=20000000000 len=3 crc=83bde72b: ok
3000 status #1 A -> B read: ok
3000 post #2 A -> B qkey=0000beef write KEY remote=20000000002 len=3 crc=352441c2 imm=00000077
6000 arrive #2 A -> B qkey=0000beef write KEY remote=20000000002 len=3 crc=352441c2 imm=00000077: ok
6000 status #2 A -> B write: ok
6000 post #3 A -> B qkey=0000beef read KEY remote=5 len=3
9000 arrive #3 A -> B qkey=0000beef read KEY remote=5 len=3: bad remote address or key
9000 status #3 A -> B read: bad remote address or key
`, short(log.String(), key))
}

// short replaces long values in lines of a log by names.
func short(log, key string) string {
	return strings.NewReplacer(key, "KEY", "fe80:0:0:0:0:0:0:1/1 -> fe80:0:0:0:0:0:0:2/9", "A -> B").Replace(log)
}

// TestRulesByKind: rules for packets do not strike RDMA, and the other way round;
// nor does one that looks at packet types.
func TestRulesByKind(t *testing.T) {
	inModes(t, func(t *testing.T, f *sim.Fabric, run func(...*party)) {
		a, b := joinAble(t, f, able, device.QPConfig{}), joinAble(t, f, able, device.QPConfig{})
		mr := b.region("\x05----------")
		all := func(base uint64) map[uint64]device.Status {
			a.send(base, b, "\x05packet")
			a.post(a.rdma(base+1, b, device.WRRead, make([]byte, 8), mr))
			a.post(a.rdma(base+2, b, device.WRWrite, []byte("\x05written"), mr))
			run(a, b)
			got := map[uint64]device.Status{}
			for id := range uint64(3) {
				got[id] = a.sent[base+id]
			}
			return got
		}
		strikes := func(base, hit uint64, r sim.Rule) {
			r.Fault, r.Status = sim.FaultStatus, device.StatusAbort
			rule := add(t, f, r)
			want := map[uint64]device.Status{0: 0, 1: 0, 2: 0}
			want[hit] = device.StatusAbort
			require.Equal(t, want, all(base))
			f.RemoveRule(rule)
		}
		strikes(10, 1, sim.Rule{WRs: []device.WR{device.WRRead}})
		require.Equal(t, "\x05written---", string(mr.Bytes()))
		copy(mr.Bytes(), "-----------")
		strikes(20, 2, sim.Rule{WRs: []device.WR{device.WRWrite}})
		require.Equal(t, "-----------", string(mr.Bytes()), "a request that is struck is not carried out")
		strikes(30, 0, sim.Rule{WRs: []device.WR{device.WRSend}})
		strikes(40, 0, sim.Rule{Types: []byte{5}})
		add(t, f, sim.Rule{Fault: sim.FaultStatus, Status: device.StatusAbort})
		require.Equal(t, map[uint64]device.Status{0: device.StatusAbort, 1: device.StatusAbort, 2: device.StatusAbort}, all(50))
	})
}

// TestRNRFaultOfWrites strikes a write with immediate; others need no slot.
func TestRNRFaultOfWrites(t *testing.T) {
	inModes(t, func(t *testing.T, f *sim.Fabric, run func(...*party)) {
		a := joinAble(t, f, able, device.QPConfig{RNRRetry: 1})
		b := joinAble(t, f, able, device.QPConfig{})
		mr := b.region("----")
		rule := add(t, f, sim.Rule{Fault: sim.FaultRNR, WRs: []device.WR{device.WRRead, device.WRWrite}})
		add(t, f, sim.Rule{Fault: sim.FaultUnknownAH})
		_, err := b.CreateAH(a.at.GID)
		require.NoError(t, err)
		a.post(a.rdma(1, b, device.WRWrite, []byte("one"), mr))
		a.post(a.rdma(2, b, device.WRRead, make([]byte, 4), mr))
		wr := a.rdma(3, b, device.WRWrite, []byte("imm"), mr)
		wr.HasImm = true
		a.post(wr)
		run(a, b)
		require.Equal(t, map[uint64]device.Status{1: 0, 2: 0, 3: device.StatusRNR}, a.sent)
		require.Equal(t, 2, f.Hits(rule))
		require.Equal(t, "one-", string(mr.Bytes()))
		require.Empty(t, b.got)
		f.RemoveRule(rule)
		wr.ID = 4
		a.post(wr)
		run(a, b)
		require.Equal(t, "imm-", string(mr.Bytes()))
		require.Len(t, b.got, 1)
		require.Equal(t, device.OpWritten, b.got[0].Op)
		require.Equal(t, device.UnknownAH, b.got[0].AH)
		require.Equal(t, a.at.GID, b.got[0].SrcGID)
	})
}

func TestRefuseMR(t *testing.T) {
	f := newFabric(t, sim.Config{})
	a, b := joinAble(t, f, able, device.QPConfig{}), joinAble(t, f, able, device.QPConfig{})
	rule := add(t, f, sim.Rule{Fault: sim.FaultRefuseMR, From: sim.Endpoint{GID: a.at.GID}, Times: 2})
	_, err := a.dev.Register(make([]byte, 1), anyAccess)
	require.ErrorIs(t, err, device.ErrNoMemory)
	b.region("not concerned")
	_, err = a.dev.Alloc(1, anyAccess)
	require.ErrorIs(t, err, device.ErrNoMemory)
	require.Equal(t, 2, f.Hits(rule))
	mr := a.region("now")
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.dev.Close(), sim.ErrBusy)
	require.NoError(t, mr.Close())
	require.NoError(t, a.dev.Close())
}

func TestRegionLimit(t *testing.T) {
	f := newFabric(t, sim.Config{})
	d, err := f.OpenDevice(sim.DeviceConfig{MaxRegions: 2})
	require.NoError(t, err)
	for range 2 {
		_, err = d.Register(make([]byte, 1), 0)
		require.NoError(t, err)
	}
	_, err = d.Register(make([]byte, 1), 0)
	require.ErrorIs(t, err, device.ErrNoMemory)
	for _, dc := range []sim.DeviceConfig{{MaxRegions: -1}, {MaxRDMA: -1}} {
		_, err = f.OpenDevice(dc)
		require.ErrorIs(t, err, sim.ErrConfig)
	}
}

// TestMismatch: devices of one fabric may differ in their abilities.
func TestMismatch(t *testing.T) {
	inModes(t, func(t *testing.T, f *sim.Fabric, run func(...*party)) {
		a := joinAble(t, f, able, device.QPConfig{})
		for i, c := range []struct {
			dc    sim.DeviceConfig
			kind  device.WR
			imm   bool
			bytes int
			st    device.Status
		}{
			{sim.DeviceConfig{}, device.WRRead, false, 1, device.StatusMismatch},
			{sim.DeviceConfig{RDMARead: true}, device.WRWrite, false, 1, device.StatusMismatch},
			{sim.DeviceConfig{RDMAWrite: true}, device.WRRead, false, 1, device.StatusMismatch},
			{sim.DeviceConfig{RDMAWrite: true, UnsolicitedWrite: true}, device.WRWrite, true, 1, device.StatusMismatch},
			{sim.DeviceConfig{RDMAWrite: true, UnsolicitedWrite: true}, device.WRWrite, false, 1, device.StatusOK},
			{sim.DeviceConfig{RDMAWrite: true, MaxRDMA: 3}, device.WRWrite, false, 4, device.StatusRemoteBadLength},
			{sim.DeviceConfig{RDMARead: true, LocalKeys: true}, device.WRRead, false, 4, device.StatusOK},
		} {
			b := joinAble(t, f, c.dc, device.QPConfig{})
			mr := b.region("-----")
			wr := a.rdma(uint64(i), b, c.kind, make([]byte, c.bytes), mr)
			wr.HasImm = c.imm
			a.post(wr)
			run(a, b)
			require.Equal(t, c.st, a.sent[uint64(i)], "case %d", i)
			require.Empty(t, b.got)
		}
	})
}

// TestRDMAOfTheGone: requests of a queue pair that was closed or killed are not
// carried out, since their memory is not the device's any more.
func TestRDMAOfTheGone(t *testing.T) {
	for _, kill := range []bool{false, true} {
		for _, late := range []bool{false, true} {
			f := newFabric(t, sim.Config{Virtual: true, Delay: time.Microsecond, CopyLate: late})
			a, b := joinAble(t, f, able, device.QPConfig{}), joinAble(t, f, able, device.QPConfig{})
			mr := b.region("there")
			local := []byte("local")
			a.post(a.rdma(1, b, device.WRWrite, local, mr))
			a.post(a.rdma(2, b, device.WRRead, local, mr))
			if kill {
				a.dev.Kill()
			}
			require.NoError(t, a.Close())
			run(f, b)
			require.Equal(t, "there", string(mr.Bytes()))
			require.Equal(t, "local", string(local))
			require.Zero(t, f.Pending())
		}
	}
}

// TestWriteTakesBytesLate: the local side is looked at when the request arrives, on
// any fabric, and a read is there before its completion.
func TestWriteTakesBytesLate(t *testing.T) {
	f := newFabric(t, sim.Config{Virtual: true, InOrder: true, Delay: time.Microsecond})
	a, b := joinAble(t, f, able, device.QPConfig{}), joinAble(t, f, able, device.QPConfig{})
	require.True(t, a.dev.Info().CopiesAtPost)
	mr := b.region("----")
	local := []byte("good")
	a.post(a.rdma(1, b, device.WRWrite, local, mr))
	copy(local, "evil")
	run(f, a, b)
	require.Equal(t, "evil", string(mr.Bytes()))

	add(t, f, sim.Rule{Fault: sim.FaultLateStatus, Delay: time.Second})
	copy(mr.Bytes(), "read")
	a.post(a.rdma(2, b, device.WRRead, local, mr))
	require.True(t, f.Step())
	a.poll()
	require.NotContains(t, a.sent, uint64(2))
	require.Equal(t, "read", string(local))
	run(f, a, b)
	require.Greater(t, f.Clock().Now(), clock.Time(time.Millisecond))
	require.Equal(t, device.StatusOK, a.sent[2])
}

// TestReceiverWritesBack: the receiver of a packet may write to where its bytes came from, at
// once. Under the race detector this shows that PostSend has no further use for them when
// another goroutine delivers the packet.
func TestReceiverWritesBack(t *testing.T) {
	f := newFabric(t, sim.Config{Seed: 1}) // shuffled, in real time
	a := joinAble(t, f, able, device.QPConfig{QKey: 1, RNRRetry: 7})
	b := joinAble(t, f, able, device.QPConfig{QKey: 2, RNRRetry: 7})
	mem := make([]byte, 4000)
	mr, err := a.dev.Register(mem, anyAccess)
	require.NoError(t, err)
	out := a.wr(0, b, "")
	out.Payload = mem
	back := b.rdma(0, a, device.WRWrite, make([]byte, len(mem)), mr)

	const rounds = 100
	var written atomic.Int64
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	until := func(p *party, what func() bool) {
		for !what() && ctx.Err() == nil {
			p.poll()
			runtime.Gosched()
		}
	}
	wg.Go(func() {
		for i := int64(1); i <= rounds; i++ {
			until(b, func() bool { return len(b.got) > 0 })
			b.got, b.bytes = nil, nil
			if b.PostSend(back) != nil {
				return
			}
			b.Doorbell()
			until(b, func() bool { return len(b.sent) > 0 })
			clear(b.sent)
			written.Store(i)
		}
	})
	for i := int64(1); i <= rounds; i++ {
		a.post(out)
		until(a, func() bool { return written.Load() == i && len(a.sent) > 0 })
		require.Equal(t, device.StatusOK, a.sent[0])
		clear(a.sent)
	}
}
