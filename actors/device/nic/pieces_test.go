package nic

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

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
