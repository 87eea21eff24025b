package nic

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
)

func TestConfig(t *testing.T) {
	c := &fakeCarrier{clk: new(handClock)}
	for name, change := range map[string]func(*Config){
		"no carrier":     func(cfg *Config) { cfg.Carrier = nil },
		"no clock":       func(cfg *Config) { cfg.Clock = nil },
		"no mtu":         func(cfg *Config) { cfg.MTU = 0 },
		"no depth":       func(cfg *Config) { cfg.Depth = 0 },
		"no slots":       func(cfg *Config) { cfg.Slots = 0 },
		"narrow stride":  func(cfg *Config) { cfg.Stride = testMTU - 1 },
		"short memory":   func(cfg *Config) { cfg.Recv = cfg.Recv[:2*200+testMTU-1] },
		"shorter memory": func(cfg *Config) { cfg.Recv = cfg.Recv[:100] },
		"retry":          func(cfg *Config) { cfg.RNRRetry = 8 },
		"delay":          func(cfg *Config) { cfg.RNRDelay = -1 },
	} {
		cfg := validConfig(c)
		change(&cfg)
		_, err := New(cfg)
		require.ErrorIs(t, err, ErrConfig, name)
	}
	cfg := validConfig(c)
	cfg.Recv = cfg.Recv[:2*200+testMTU] // the last slot needs no stride
	q, err := New(cfg)
	require.NoError(t, err)
	require.Len(t, q.RecvBytes(2), testMTU)
	require.Equal(t, testMTU, cap(q.RecvBytes(0)), "a slot ends at the MTU")
	require.Equal(t, []int{42}, q.FDs())
	require.Equal(t, uint16(5), q.QPN())
}

// TestCarrierLies: impossible events are counted and dropped, since a carrier may
// have them from memory that others write to.
func TestCarrierLies(t *testing.T) {
	q, c, ah := start(t, nil)
	c.answer = answer(Pending)
	q.PostRecv([]int32{1})
	require.NoError(t, q.PostSend(&device.SendWR{ID: 5, AH: ah}))
	token := c.attempts[0].token
	lies := []device.Completion{
		{Op: device.OpRecv, ID: 0},                      // not posted
		{Op: device.OpRecv, ID: testSlots},              // no such slot
		{Op: device.OpRecv, ID: 1 << 40},                //
		{Op: device.OpRecv, ID: 1, Len: testMTU + 1},    // too long
		{Op: device.OpRecv, ID: 1, Len: -1},             //
		{Op: device.OpSend, ID: token + 1},              // not outstanding
		{Op: device.OpSend, ID: token + 1<<32},          // another use
		{Op: device.OpSend, ID: 0xffffffff},             // no such request
		{Op: device.OpSend, ID: token, Status: Pending}, // no status
		{Op: 0, ID: 1}, // no kind
		{Op: 9, ID: 1}, //
		{Op: device.OpSend, ID: token, Status: device.StatusBadDestQPN}, // true
		{Op: device.OpSend, ID: token},                                  // twice
		{Op: device.OpRecv, ID: 1, Len: testMTU, SrcQPN: 3, SrcGID: testGID},
		{Op: device.OpRecv, ID: 1},
	}
	c.arrivals = lies
	require.Equal(t, []device.Completion{
		{Op: device.OpSend, ID: 5, Status: device.StatusBadDestQPN},
		{Op: device.OpRecv, ID: 1, Len: testMTU, SrcQPN: 3, AH: ah},
	}, pollUntil(q, 2))
	require.Equal(t, uint64(len(lies)-2), q.Stats().Refused)
	require.Zero(t, q.Outstanding())
}

// pollUntil polls until want completions came; polls that yield only lies are
// empty.
func pollUntil(q *QP, want int) (all []device.Completion) {
	for range 100 {
		all = append(all, drain(q)...)
		if len(all) == want {
			break
		}
	}
	return append(all, drain(q)...)
}

func TestUnknownSenderForced(t *testing.T) {
	q, c, ah := start(t, nil)
	q.PostRecv([]int32{0, 1})
	c.arrivals = []device.Completion{
		{Op: device.OpRecv, ID: 0, SrcGID: testGID},
		{Op: device.OpRecv, ID: 1, SrcGID: testGID, AH: device.UnknownAH},
		{Op: device.OpGone, SrcGID: testGID, SrcQPN: 8, QKey: 9},
	}
	require.Equal(t, []device.Completion{
		{Op: device.OpRecv, ID: 0, AH: ah},
		{Op: device.OpRecv, ID: 1, AH: device.UnknownAH, SrcGID: testGID},
		{Op: device.OpGone, SrcGID: testGID, SrcQPN: 8, QKey: 9, AH: ah},
	}, drain(q))
	require.Equal(t, uint64(1), q.Stats().UnknownSenders)
}

func TestRouteRefused(t *testing.T) {
	q, c, _ := start(t, nil)
	c.noRoute = errors.New("no route")
	_, err := q.CreateAH(device.GID{1})
	require.ErrorIs(t, err, c.noRoute)
	require.Equal(t, 1, q.AHs())
	c.noRoute = nil
	ah, err := q.CreateAH(device.GID{1})
	require.NoError(t, err)
	require.Equal(t, device.AH(1), ah, "no number was lost")
}

func TestBadPostsCounted(t *testing.T) {
	q, c, _ := start(t, nil)
	q.PostRecv([]int32{2, 2, -1, testSlots, 0})
	require.Equal(t, []int32{2, 0}, c.posted)
	require.Equal(t, uint64(3), q.Stats().BadPosts)
	q.PostRecv([]int32{0})
	require.Equal(t, []int32{2, 0}, c.posted)
}

func TestClosed(t *testing.T) {
	q, c, ah := start(t, nil)
	require.NoError(t, q.PostSend(&device.SendWR{AH: ah}))
	require.NoError(t, q.Close())
	require.ErrorIs(t, q.Close(), device.ErrClosed)
	require.Equal(t, 1, c.closed)
	require.ErrorIs(t, q.PostSend(&device.SendWR{AH: ah}), device.ErrClosed)
	q.PostRecv([]int32{0})
	q.Doorbell()
	require.Empty(t, drain(q))
	require.False(t, q.Arm())
	require.Empty(t, c.posted)
	require.Zero(t, c.bells)
}

// TestRandomCarrier lets a carrier answer at random: each accepted send
// completes once, after 1+RNRRetry attempts at most, and never more than Depth
// are outstanding.
func TestRandomCarrier(t *testing.T) {
	seeds := uint64(200)
	if testenv.Short() {
		seeds = 40
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 1))
		retries := uint8(rng.IntN(4))
		q, c, ah := start(t, func(cfg *Config) {
			cfg.RNRRetry, cfg.CopiesAtPost = retries, seed%2 == 0
			cfg.Depth = 1 + rng.IntN(6)
		})
		tries := map[string]int{}
		var pending []uint64
		c.answer = func(wr *device.SendWR) device.Status {
			tries[string(wr.Header)]++
			st := []device.Status{device.StatusOK, device.StatusRNR, Pending, device.StatusBadDestQPN}[rng.IntN(4)]
			if st == Pending {
				pending = append(pending, c.attempts[len(c.attempts)-1].token)
			}
			return st
		}
		done := map[uint64]bool{}
		id := uint64(0)
		var cs [3]device.Completion
		for step := range 2000 {
			if step < 1500 && rng.IntN(3) == 0 {
				err := q.PostSend(&device.SendWR{ID: id, AH: ah, Header: []byte{byte(id), byte(id >> 8)}})
				if q.Outstanding() < q.cfg.Depth || err == nil {
					require.NoError(t, err)
					id++
				} else {
					require.ErrorIs(t, err, device.ErrQueueFull)
				}
			}
			if len(pending) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(pending))
				st := []device.Status{device.StatusOK, device.StatusRNR, device.StatusUnresponsive}[rng.IntN(3)]
				c.arrivals = append(c.arrivals, device.Completion{Op: device.OpSend, ID: pending[i], Status: st})
				pending = append(pending[:i], pending[i+1:]...)
			}
			for _, e := range cs[:q.Poll(cs[:rng.IntN(4)])] {
				require.False(t, done[e.ID], "seed %d: send %d twice", seed, e.ID)
				done[e.ID] = true
			}
			require.LessOrEqual(t, q.Outstanding(), q.cfg.Depth)
			c.clk.now = c.clk.now.Add(time.Duration(rng.IntN(20)) * time.Microsecond)
		}
		for range 50 {
			c.clk.now = c.clk.now.Add(time.Second)
			for _, token := range pending {
				c.arrivals = append(c.arrivals, device.Completion{Op: device.OpSend, ID: token})
			}
			pending = nil
			for _, e := range drain(q) {
				require.False(t, done[e.ID], "seed %d: send %d twice", seed, e.ID)
				done[e.ID] = true
			}
		}
		require.Len(t, done, int(id), "seed %d", seed)
		require.Zero(t, q.Outstanding())
		require.Zero(t, q.Stats().Refused)
		for _, n := range tries {
			require.LessOrEqual(t, n, 1+int(retries))
		}
	}
}

// TestHandlesAgainstModel compares address handles with a plain model.
func TestHandlesAgainstModel(t *testing.T) {
	q, c, first := start(t, nil)
	rng := rand.New(rand.NewPCG(3, 3))
	refs := map[device.AH]int{first: 1}
	gids := map[device.AH]device.GID{first: testGID}
	for range 4000 {
		if rng.IntN(2) == 0 {
			gid := device.GID{0: 1, 15: byte(rng.IntN(40))}
			ah, err := q.CreateAH(gid)
			require.NoError(t, err)
			if refs[ah] > 0 {
				require.Equal(t, gids[ah], gid)
			}
			refs[ah]++
			gids[ah] = gid
		} else {
			ah := device.AH(rng.IntN(42))
			err := q.DestroyAH(ah)
			if refs[ah] == 0 {
				require.ErrorIs(t, err, device.ErrBadAH)
				continue
			}
			require.NoError(t, err)
			if refs[ah]--; refs[ah] == 0 {
				delete(gids, ah)
			}
		}
		probe := device.GID{0: 1, 15: byte(rng.IntN(40))}
		want := device.UnknownAH
		for ah, gid := range gids {
			if gid == probe {
				want = ah
			}
		}
		require.Equal(t, want, q.ahs.find(&probe))
		require.Equal(t, gids, c.routes)
		require.Equal(t, len(gids), q.AHs())
	}
}

// TestFatal: the end of the queue pair is the last that is polled, whether arrivals or sends
// have their turn, and then there is nothing to wait for.
func TestFatal(t *testing.T) {
	fatal := device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}
	for _, room := range []int{1, 2, 3, 16} {
		for turns := range 2 {
			q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = 7 })
			for range turns {
				require.Empty(t, drain(q))
			}
			for id := range uint64(2) {
				require.NoError(t, q.PostSend(&device.SendWR{ID: id, AH: ah}))
			}
			c.answer = answer(device.StatusRNR)
			require.NoError(t, q.PostSend(&device.SendWR{ID: 2, AH: ah}))
			c.arrivals = []device.Completion{{Op: device.OpGone}, fatal, {Op: device.OpGone}}
			var got []device.Completion
			for range 10 {
				b := make([]device.Completion, room)
				got = append(got, b[:q.Poll(b)]...)
			}
			require.Equal(t, fatal, got[len(got)-1])
			require.ErrorIs(t, q.PostSend(&device.SendWR{ID: 3, AH: ah}), device.ErrClosed)
			require.True(t, q.Arm())
			tries := len(c.attempts)
			c.clk.now = c.clk.now.Add(1 << 40)
			q.Doorbell()
			q.PostRecv([]int32{0})
			require.Len(t, c.attempts, tries, "nothing is sent again")
			require.Zero(t, c.bells)
			require.Empty(t, c.posted)
			require.NoError(t, q.DestroyAH(ah))
			require.NoError(t, q.Close())
		}
	}
}

func TestSetDepths(t *testing.T) {
	info := device.Info{MaxSQ: 100, MaxRQ: 300}
	c := device.QPConfig{}
	require.NoError(t, SetDepths(&c, info, 256, ErrConfig))
	require.Equal(t, device.QPConfig{SQDepth: 100, RQDepth: 256}, c)
	c = device.QPConfig{SQDepth: 1, RQDepth: 300}
	require.NoError(t, SetDepths(&c, info, 256, ErrConfig))
	require.Equal(t, device.QPConfig{SQDepth: 1, RQDepth: 300}, c)
	for _, bad := range []device.QPConfig{{SQDepth: -1}, {RQDepth: -1}, {SQDepth: 101}, {RQDepth: 301}} {
		require.ErrorIs(t, SetDepths(&bad, info, 256, ErrConfig), ErrConfig)
	}
}
