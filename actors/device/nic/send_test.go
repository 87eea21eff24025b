package nic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

const testMaxRDMA = 1000

func withRDMA(cfg *Config) {
	cfg.RDMARead, cfg.RDMAWrite, cfg.MaxRDMA = true, true, testMaxRDMA
}

func TestRDMAConfig(t *testing.T) {
	c := &fakeCarrier{clk: new(handClock)}
	for name, change := range map[string]func(*Config){
		"read of nothing":      func(cfg *Config) { cfg.RDMARead = true },
		"write of nothing":     func(cfg *Config) { cfg.RDMAWrite = true },
		"negative":             func(cfg *Config) { cfg.MaxRDMA = -1 },
		"keys without regions": func(cfg *Config) { cfg.LocalKeys = true },
	} {
		cfg := validConfig(c)
		change(&cfg)
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrConfig, name)
	}
}

// TestRDMAChecked: invalid requests are refused at the post and take no place.
func TestRDMAChecked(t *testing.T) {
	long := make([]byte, testMaxRDMA+1)
	for _, c := range []struct {
		config func(*Config)
		wr     device.SendWR
		err    error
	}{
		{nil, device.SendWR{Kind: device.WRRead}, device.ErrNotSupported},
		{nil, device.SendWR{Kind: device.WRWrite}, device.ErrNotSupported},
		{func(cfg *Config) { cfg.RDMARead, cfg.MaxRDMA = true, 1 }, device.SendWR{Kind: device.WRWrite}, device.ErrNotSupported},
		{func(cfg *Config) { cfg.RDMAWrite, cfg.MaxRDMA = true, 1 }, device.SendWR{Kind: device.WRRead}, device.ErrNotSupported},
		{withRDMA, device.SendWR{Kind: 3}, device.ErrNotSupported},
		{withRDMA, device.SendWR{Kind: device.WRRead, HasImm: true}, device.ErrNotSupported},
		{withRDMA, device.SendWR{Kind: device.WRWrite, Header: []byte("x")}, device.ErrNotSupported},
		{withRDMA, device.SendWR{Kind: device.WRRead, Payload: long}, device.ErrTooLong},
		{withRDMA, device.SendWR{Kind: device.WRWrite, Payload: long}, device.ErrTooLong},
		{withRDMA, device.SendWR{Kind: device.WRSend, Payload: long[:testMTU+1]}, device.ErrTooLong},
		{withRDMA, device.SendWR{Kind: device.WRRead, AH: 9}, device.ErrBadAH},
	} {
		q, carrier, _ := start(t, c.config)
		require.ErrorIs(t, q.PostSend(&c.wr), c.err, "%+v", c.wr)
		require.Empty(t, carrier.attempts)
		require.Zero(t, q.Outstanding())
	}
	q, c, ah := start(t, withRDMA)
	wr := device.SendWR{ID: 4, Kind: device.WRWrite, AH: ah, Payload: long[:testMaxRDMA], RKey: 7, Remote: 8, HasImm: true, Imm: 9}
	require.NoError(t, q.PostSend(&wr))
	require.Equal(t, []device.SendWR{wr}, c.rdma)
	require.Equal(t, []device.Completion{{ID: 4, Op: device.OpSend}}, drain(q))
}

// TestLocalKeyChecked at the post, and again when the device resends.
func TestLocalKeyChecked(t *testing.T) {
	rs := counted(0)
	mem := make([]byte, 100)
	r := add(t, rs, Memory{Bytes: mem})
	q, c, ah := start(t, func(cfg *Config) {
		withRDMA(cfg)
		cfg.LocalKeys, cfg.Regions, cfg.RNRRetry = true, rs, 7
	})
	bad := []device.Completion{{ID: 1, Op: device.OpSend, Status: device.StatusInvalidLKey}}
	for _, wr := range []device.SendWR{
		{ID: 1, Kind: device.WRWrite, Payload: mem},
		{ID: 1, Kind: device.WRWrite, Payload: mem, LKey: 99},
		{ID: 1, Kind: device.WRWrite, Payload: make([]byte, 1), LKey: r.LKey()},
		{ID: 1, Kind: device.WRRead, Payload: mem, LKey: r.LKey()},
	} {
		wr.AH = ah
		require.NoError(t, q.PostSend(&wr))
		require.Equal(t, bad, drain(q))
		require.Empty(t, c.attempts)
	}
	c.answer = answer(device.StatusRNR)
	wr := device.SendWR{ID: 1, Kind: device.WRWrite, AH: ah, Payload: mem[5:], LKey: r.LKey(), HasImm: true}
	require.NoError(t, q.PostSend(&wr))
	require.Len(t, c.rdma, 1)
	c.clk.now = c.clk.now.Add(time.Second)
	require.Empty(t, drain(q))
	require.Len(t, c.rdma, 2)
	require.NoError(t, r.Close())
	c.clk.now = c.clk.now.Add(time.Second)
	require.Equal(t, bad, drain(q))
	require.Len(t, c.rdma, 2)
	require.Zero(t, q.Outstanding())
}

// TestRDMAResend: a write with immediate that met RNR is sent again from the
// caller's memory, which is not copied, even if the device copies packets.
func TestRDMAResend(t *testing.T) {
	for _, st := range []device.Status{device.StatusRNR, Pending} {
		q, c, ah := start(t, func(cfg *Config) {
			withRDMA(cfg)
			cfg.RNRRetry = 1
		})
		c.answer = answer(st)
		mem := make([]byte, testMTU*2) // longer than any buffer for packets
		wr := device.SendWR{ID: 6, Kind: device.WRWrite, AH: ah, Payload: mem, RKey: 3, Remote: 4, HasImm: true, Imm: 5}
		require.NoError(t, q.PostSend(&wr))
		if st == Pending {
			c.arrivals = []device.Completion{{Op: device.OpSend, ID: c.attempts[0].token, Status: device.StatusRNR}}
			require.Empty(t, drain(q))
		}
		c.clk.now = c.clk.now.Add(time.Second)
		c.answer = answer(device.StatusOK)
		require.Equal(t, []device.Completion{{ID: 6, Op: device.OpSend}}, drain(q))
		require.Len(t, c.rdma, 2)
		require.Equal(t, c.rdma[0], c.rdma[1])
		require.Same(t, &mem[0], &c.rdma[1].Payload[0])
	}
}

// TestWrittenChecked: impossible writes are dropped; slots return to the caller
// once.
func TestWrittenChecked(t *testing.T) {
	for _, unsolicited := range []bool{false, true} {
		q, c, ah := start(t, func(cfg *Config) {
			withRDMA(cfg)
			cfg.UnsolicitedWrite = unsolicited
		})
		q.PostRecv([]int32{1})
		good := device.Completion{Op: device.OpWritten, ID: 1, Len: testMaxRDMA, SrcGID: testGID, SrcQPN: 3, Imm: 4}
		other := good
		other.ID = device.NoSlot
		if unsolicited {
			good, other = other, good
		}
		long, short, far, unposted := good, good, good, good
		long.Len, short.Len = 1<<32, -1
		far.ID, unposted.ID = testSlots, 0
		lies := []device.Completion{other, long, short, far, unposted}
		c.arrivals = append(lies, good)
		want := good
		want.AH, want.SrcGID, want.HasImm = ah, device.GID{}, true
		require.Equal(t, []device.Completion{want}, pollUntil(q, 1))
		require.Equal(t, uint64(len(lies)), q.Stats().Refused)
		require.Equal(t, uint64(1), q.Stats().Written)
		c.arrivals = []device.Completion{good}
		if unsolicited {
			require.Len(t, drain(q), 1)
			continue
		}
		require.Empty(t, drain(q), "the slot is not posted any more")
		q.PostRecv([]int32{1})
		require.Equal(t, []int32{1, 1}, c.posted)
		c.arrivals = []device.Completion{good}
		require.Len(t, drain(q), 1)
	}
}

func TestRefusedReported(t *testing.T) {
	q, c, ah := start(t, nil)
	c.arrivals = []device.Completion{
		{Op: device.OpRefused, SrcGID: testGID, SrcQPN: 3},
		{Op: device.OpRefused, SrcGID: device.GID{1}, SrcQPN: 4},
	}
	require.Equal(t, []device.Completion{
		{Op: device.OpRefused, AH: ah, SrcQPN: 3},
		{Op: device.OpRefused, AH: device.UnknownAH, SrcGID: device.GID{1}, SrcQPN: 4},
	}, drain(q))
	require.Equal(t, uint64(2), q.Stats().Denied)
}

// TestPieces: a carrier gets one piece, and its memory comes back whatever the end is.
func TestPieces(t *testing.T) {
	for _, copies := range []bool{true, false} {
		q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry, cfg.CopiesAtPost = 1, copies })
		wr := &device.SendWR{
			AH: ah, Header: []byte("a"), Payload: []byte("bc"), More: []device.Piece{{Mem: []byte("de")}, {}, {Mem: []byte("f")}},
		}
		post := func(st device.Status) {
			c.answer = answer(st)
			require.NoError(t, q.PostSend(wr))
			require.Equal(t, "abcdef", c.attempts[len(c.attempts)-1].bytes)
		}
		post(device.StatusOK)
		post(device.StatusBadDestQPN)
		require.Len(t, q.spare, 1, "one piece of memory is enough")
		require.Len(t, drain(q), 2)
		wr.Prompt = true
		post(device.StatusOK)
		require.True(t, wr.Over)
		wr.Prompt, wr.Over = false, false
		require.Zero(t, q.Outstanding())

		post(device.StatusRNR)
		require.Empty(t, q.spare, "it is sent again from there")
		wr.Payload = []byte("!!")
		c.clk.now = c.clk.now.Add(DefaultRNRDelay)
		c.answer = answer(device.StatusOK)
		q.Doorbell()
		require.Equal(t, "abcdef", c.attempts[len(c.attempts)-1].bytes)
		require.Len(t, q.spare, 1)
		require.Len(t, drain(q), 1)
	}
}

// TestPiecesAllocate: a send of several pieces allocates nothing.
func TestPiecesAllocate(t *testing.T) {
	q, c, ah := start(t, nil)
	c.answer = answer(device.StatusOK)
	var comps [4]device.Completion
	send := device.SendWR{AH: ah, More: make([]device.Piece, 1)} // without bytes, since the fake keeps them
	round := func() {
		if q.PostSend(&send) != nil {
			t.Error("refused")
		}
		c.attempts = c.attempts[:0]
		if q.Poll(comps[:]) != 1 {
			t.Error("one is ready")
		}
	}
	round()
	if got := testing.AllocsPerRun(100, round); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

// TestSilentReceiver: a receiver from which no answer comes takes up a share of what may be
// under way, so that datagrams to others go out; all are over at once. With the answers there is
// room again.
func TestSilentReceiver(t *testing.T) {
	q, c, silent := start(t, func(cfg *Config) { cfg.Datagram, cfg.Depth = true, 8 })
	other, err := q.CreateAH(device.GID{9})
	require.NoError(t, err)
	c.answer = func(wr *device.SendWR) device.Status {
		if wr.AH == silent {
			return Pending
		}
		return device.StatusOK
	}
	send := func(ah device.AH) {
		wr := device.SendWR{AH: ah, Prompt: true}
		require.NoError(t, q.PostSend(&wr))
		require.True(t, wr.Over)
	}
	for range 100 {
		send(silent)
		send(other)
	}
	require.Len(t, c.attempts, 2+100)
	require.EqualValues(t, 98, q.Stats().Lost)
	for _, x := range c.attempts {
		if x.ah == silent {
			c.arrivals = append(c.arrivals, device.Completion{Op: device.OpSend, ID: x.token, Status: device.StatusRNR})
		}
	}
	require.Empty(t, drain(q))
	require.EqualValues(t, 100, q.Stats().Lost)
	send(silent)
	require.Len(t, c.attempts, 103)
	require.Zero(t, q.Outstanding())
	require.Zero(t, q.Stats().Refused)
}
