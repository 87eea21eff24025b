package nic

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// TestRNRRetryCount counts sends until StatusRNR, whether the refusal is known
// at once or later.
func TestRNRRetryCount(t *testing.T) {
	for retries := range uint8(Forever) {
		for _, late := range []bool{false, true} {
			q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = retries })
			st := device.StatusRNR
			if late {
				st = Pending
			}
			c.answer = answer(st)
			require.NoError(t, q.PostSend(&device.SendWR{ID: 77, AH: ah, Header: []byte("abc")}))
			var got []device.Completion
			for range 20 {
				if late && len(c.attempts) > 0 {
					last := c.attempts[len(c.attempts)-1]
					c.arrivals = append(c.arrivals, device.Completion{Op: device.OpSend, ID: last.token, Status: device.StatusRNR})
				}
				got = append(got, drain(q)...)
				if len(got) > 0 {
					break
				}
				c.clk.now = c.clk.now.Add(time.Second)
			}
			require.Equal(t, []device.Completion{{ID: 77, Op: device.OpSend, Status: device.StatusRNR}}, got)
			require.Len(t, c.attempts, 1+int(retries), "late=%v", late)
			for _, a := range c.attempts {
				require.Equal(t, "abc", a.bytes)
				require.Equal(t, ah, a.ah)
			}
			stats := q.Stats()
			require.Equal(t, uint64(retries), stats.Resends)
			require.Equal(t, uint64(retries)+1, stats.RNRs)
			require.Equal(t, uint64(1), stats.SendErrors)
			require.Zero(t, q.Outstanding())
		}
	}
}

// TestRNROfStaying: of a long packet that stays no copy is kept for later, so its owner hears of the first
// refusal, unless there is no end of retries.
func TestRNROfStaying(t *testing.T) {
	for retries, want := range map[uint8]int{0: 1, 3: 1, Forever: 11} {
		q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = retries })
		c.answer = answer(Pending)
		long := make([]byte, longPacket)
		q.cfg.MTU = longPacket
		require.NoError(t, q.PostSend(&device.SendWR{ID: 77, AH: ah, Payload: long, Stays: true}))
		require.Equal(t, retries == Forever, q.reqs[0].own != nil || q.reqs[len(q.reqs)-1].own != nil)
		var got []device.Completion
		for range 10 {
			last := c.attempts[len(c.attempts)-1]
			c.arrivals = append(c.arrivals, device.Completion{Op: device.OpSend, ID: last.token, Status: device.StatusRNR})
			if got = append(got, drain(q)...); len(got) > 0 {
				break
			}
			c.clk.now = c.clk.now.Add(time.Second)
			q.Doorbell()
		}
		require.Len(t, c.attempts, want, "retries %d", retries)
		require.Equal(t, retries != Forever, len(got) == 1 && got[0].Status == device.StatusRNR)
	}
}

// TestSetRNRRetry: a queue pair may learn late how often it is to resend, but not
// after its first send, of which it may have kept nothing to resend.
func TestSetRNRRetry(t *testing.T) {
	for set, want := range map[uint8]uint8{0: 0, 3: 3, 6: 6, Forever: Forever, 8: Forever, 255: Forever} {
		q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = 1 })
		require.NoError(t, q.SetRNRRetry(5))
		require.NoError(t, q.SetRNRRetry(set))
		c.answer = answer(device.StatusRNR)
		require.NoError(t, q.PostSend(&device.SendWR{ID: 1, AH: ah, Header: []byte("abc")}))
		tries := int(want) + 1
		for range 20 {
			c.clk.now = c.clk.now.Add(time.Second)
			q.Doorbell()
		}
		if want == Forever {
			tries = 21
		}
		require.Len(t, c.attempts, tries, "%d", set)
		require.Equal(t, "abc", c.attempts[len(c.attempts)-1].bytes)
		require.Equal(t, want != Forever, len(drain(q)) == 1)
	}

	q, c, ah := start(t, nil)
	c.answer = answer(Pending)
	require.NoError(t, q.PostSend(&device.SendWR{ID: 1, AH: ah, Header: []byte("abc")}))
	require.NoError(t, q.SetRNRRetry(Forever))
	c.arrivals = []device.Completion{{Op: device.OpSend, ID: c.attempts[0].token, Status: device.StatusRNR}}
	require.Equal(t, []device.Completion{{ID: 1, Op: device.OpSend, Status: device.StatusRNR}}, drain(q))
	require.Len(t, c.attempts, 1)
}

// TestRNRPacing: no resend comes before its time, the delay doubles 64-fold at
// most, and polling in between sends nothing.
func TestRNRPacing(t *testing.T) {
	q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = Forever })
	c.answer = answer(device.StatusRNR)
	require.NoError(t, q.PostSend(&device.SendWR{AH: ah}))
	for range 12_000 {
		c.clk.now = c.clk.now.Add(time.Microsecond)
		require.Empty(t, drain(q))
		q.Doorbell()
	}
	want := 10 * time.Microsecond
	for i := 1; i < len(c.attempts); i++ {
		require.Equal(t, want, c.attempts[i].at.Sub(c.attempts[i-1].at), "resend %d", i)
		want = min(2*want, 640*time.Microsecond)
	}
	require.Greater(t, len(c.attempts), Forever+10, "it never gives up")
	c.answer = answer(device.StatusOK)
	c.clk.now = c.clk.now.Add(time.Millisecond)
	require.Len(t, drain(q), 1)
}

// TestResendsKeepTheirOwnTimes: an early resend does not take along later ones.
func TestResendsKeepTheirOwnTimes(t *testing.T) {
	q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = 3 })
	c.answer = answer(device.StatusRNR)
	t0 := c.clk.now
	require.NoError(t, q.PostSend(&device.SendWR{ID: 1, AH: ah, Header: []byte("1")}))
	c.clk.now = t0.Add(6 * time.Microsecond)
	require.NoError(t, q.PostSend(&device.SendWR{ID: 2, AH: ah, Header: []byte("2")}))
	c.attempts = nil
	for c.clk.now < t0.Add(40*time.Microsecond) {
		drain(q)
		c.clk.now = c.clk.now.Add(time.Microsecond)
	}
	var got []string
	for _, a := range c.attempts {
		got = append(got, a.at.Sub(t0).String()+" "+a.bytes)
	}
	require.Equal(t, []string{"10µs 1", "16µs 2", "30µs 1", "36µs 2"}, got)
}

// TestResendBytes: a device that takes the bytes at the post sends those again,
// one that does not looks at the caller's.
func TestResendBytes(t *testing.T) {
	for _, copies := range []bool{true, false} {
		for _, st := range []device.Status{device.StatusRNR, Pending} {
			q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry, cfg.CopiesAtPost = 1, copies })
			c.answer = answer(st)
			head, body := []byte("head"), []byte("body")
			require.NoError(t, q.PostSend(&device.SendWR{AH: ah, Header: head, Payload: body}))
			copy(head, "HEAD")
			if st == Pending {
				c.arrivals = []device.Completion{{Op: device.OpSend, ID: c.attempts[0].token, Status: device.StatusRNR}}
				require.Empty(t, drain(q))
			}
			c.clk.now = c.clk.now.Add(time.Second)
			c.answer = answer(device.StatusOK)
			require.Len(t, drain(q), 1)
			want := "HEADbody"
			if copies {
				want = "headbody"
			}
			require.Len(t, c.attempts, 2)
			require.Equal(t, want, c.attempts[1].bytes)
		}
	}
}

func TestDestroyAHEndsResends(t *testing.T) {
	q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = Forever })
	other, err := q.CreateAH(device.GID{15: 9})
	require.NoError(t, err)
	c.answer = answer(device.StatusRNR)
	require.NoError(t, q.PostSend(&device.SendWR{ID: 1, AH: ah}))
	require.NoError(t, q.PostSend(&device.SendWR{ID: 2, AH: other}))
	c.answer = answer(Pending)
	require.NoError(t, q.PostSend(&device.SendWR{ID: 3, AH: ah}))
	require.NoError(t, q.DestroyAH(ah))
	require.Equal(t, []device.Completion{{ID: 1, Op: device.OpSend, Status: device.StatusInvalidAH}}, drain(q))
	require.NotContains(t, c.routes, ah)

	// The number stands for another GID now: packets in flight must not go there.
	again, err := q.CreateAH(device.GID{15: 10})
	require.NoError(t, err)
	require.Equal(t, ah, again)
	c.arrivals = []device.Completion{{Op: device.OpSend, ID: c.attempts[2].token, Status: device.StatusRNR}}
	require.Equal(t, []device.Completion{{ID: 3, Op: device.OpSend, Status: device.StatusRNR}}, drain(q))

	c.answer = answer(device.StatusOK)
	c.clk.now = c.clk.now.Add(time.Second)
	require.Equal(t, []device.Completion{{ID: 2, Op: device.OpSend}}, drain(q))
	require.Len(t, c.attempts, 4)
}

// TestArmWithResends: with a timer one may sleep until the resend is due.
func TestArmWithResends(t *testing.T) {
	q, c, ah := start(t, func(cfg *Config) { cfg.RNRRetry = 2 })
	require.True(t, q.Arm())
	c.answer = answer(device.StatusRNR)
	require.NoError(t, q.PostSend(&device.SendWR{AH: ah}))
	require.False(t, q.Arm(), "nobody would wake us")
	c.timer = true
	require.True(t, q.Arm())
	require.Equal(t, c.clk.now.Add(10*time.Microsecond), c.wake)
	c.clk.now = c.wake
	c.answer = answer(device.StatusOK)
	q.Doorbell()
	require.False(t, q.Arm(), "the send is done and not polled")
	require.Len(t, drain(q), 1)
	require.True(t, q.Arm())
}
