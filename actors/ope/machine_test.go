package ope

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCut has the figures of captured messages: 20000 bytes, MTU 8760, in packets
// with a raw address (room 8696 untagged, 8688 tagged) and with a connid.
func TestCut(t *testing.T) {
	for _, c := range []struct {
		how         Rounding
		total, room int
		want        []int
	}{
		{RoundDown, 20000, 8696, []int{6664, 6664, 6672}},
		{RoundUp, 20000, 8696, []int{6672, 6672, 6656}},
		{Fill, 20000, 8696, []int{8696, 8696, 2608}},
		{RoundDown, 20000, 8724, []int{6664, 6664, 6672}},
		{RoundUp, 20000, 8716, []int{6672, 6672, 6656}},
		{RoundDown, 8704, 8696, []int{4352, 4352}},
		// The rest does not fit behind the last part: one packet more.
		{RoundDown, 31, 11, []int{8, 8, 8, 7}},
		// Room for less than the alignment: what fits.
		{RoundDown, 20, 5, []int{5, 5, 5, 5}},
		{RoundUp, 20, 5, []int{5, 5, 5, 5}},
		{RoundUp, 20, 7, []int{7, 7, 6}},
		{RoundDown, 5, 5, []int{5}},
	} {
		require.Equal(t, c.want, cut(c.how, c.total, c.room), "%+v", c)
	}
}

// cut lists the parts as the machine posts them.
func cut(how Rounding, total, room int) (parts []int) {
	size, n := Cut(how, total, room)
	var m Tx
	m.Start(&Shape{Proto: Medium, Total: uint64(total), End: uint64(total), Seg: size, Parts: n})
	for m.State == TxReq && len(parts) <= total {
		s, ok := m.Next(room)
		if !ok {
			break
		}
		parts = append(parts, int(s.Len))
		if m.Posted(s) != nil {
			return nil
		}
	}
	return parts
}

func TestCutAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		how := rapid.SampledFrom([]Rounding{RoundDown, RoundUp, Fill}).Draw(t, "how")
		room := rapid.IntRange(1, 9000).Draw(t, "room")
		total := rapid.IntRange(1, 12*room).Draw(t, "total")
		sum := 0
		parts := cut(how, total, room)
		for i, n := range parts {
			if n <= 0 || n > room {
				t.Fatalf("part %d of %d bytes, room %d", i, n, room)
			}
			if i < len(parts)-1 && how != Fill && room >= align && n != room && n%align != 0 {
				t.Fatalf("part %d of %d bytes is not aligned", i, n)
			}
			sum += n
		}
		if sum != total {
			t.Fatalf("%d parts of %d bytes in all, not %d", len(parts), sum, total)
		}
		most := (total + room - 1) / room
		if even := (total + most - 1) / most; how == RoundDown && even >= align { // parts have up to 7 bytes less
			most = max(most, (total-1)/(even-align+1)+1)
		}
		if len(parts) > most {
			t.Fatalf("%d parts, %d would do", len(parts), most)
		}
	})
}

// TestLongCTSMachine lets a receiver grant whatever it likes, and acknowledgements
// come whenever they like: each byte is sent once, never beyond a grant.
func TestLongCTSMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Uint64Range(1, 5000).Draw(t, "total")
		room := rapid.IntRange(0, 600).Draw(t, "room")
		var m Tx
		m.Start(&Shape{Proto: LongCTS, Total: total, End: total, Seg: room, Parts: 1})
		var flying []int
		next := uint64(0)
		for steps := 0; m.State != TxDone; steps++ {
			if steps > 20000 {
				t.Fatalf("no end: %+v", m)
			}
			if s, ok := m.Next(500); ok && (len(flying) == 0 || rapid.Bool().Draw(t, "post")) {
				if s.Off != next || s.Data != (s.Off > 0 || steps > 0) || s.Len > 600 || (s.Data && s.Len > m.Window) {
					t.Fatalf("segment %+v after %d bytes, window %d", s, next, m.Window)
				}
				next += s.Len
				if err := m.Posted(s); err != nil {
					t.Fatal(err)
				}
				flying = append(flying, int(s.Len))
				continue
			}
			if left := total - m.Sent; m.State == TxWait && (len(flying) == 0 || rapid.Bool().Draw(t, "grant")) {
				for _, bad := range []uint64{0, left + 1, 1 << 63} {
					if m.CTS(bad) == nil {
						t.Fatalf("grant of %d with %d left", bad, left)
					}
				}
				if err := m.CTS(rapid.Uint64Range(1, left).Draw(t, "window")); err != nil {
					t.Fatal(err)
				}
				continue
			}
			i := rapid.IntRange(0, len(flying)-1).Draw(t, "ack")
			if err := m.Ack(flying[i]); err != nil {
				t.Fatal(err)
			}
			flying = append(flying[:i], flying[i+1:]...)
		}
		if m.Acked != total || m.Sent != total || len(flying) > 0 {
			t.Fatalf("done with %+v, %d packets under way", m, len(flying))
		}
	})
}

// TestMachineFails: a packet that is lost ends the message, once the others are
// back; later grants change nothing.
func TestMachineFails(t *testing.T) {
	var m Tx
	m.Start(&Shape{Proto: LongCTS, Total: 100, End: 100, Seg: 10, Parts: 1})
	for _, window := range []uint64{0, 20} {
		if window > 0 {
			require.NoError(t, m.CTS(window))
		}
		s, ok := m.Next(10)
		require.True(t, ok)
		require.NoError(t, m.Posted(s))
	}
	require.NoError(t, m.Lost())
	require.Equal(t, TxErr, m.State)
	require.NoError(t, m.Ack(10))
	require.Equal(t, TxErr, m.State)
	require.Zero(t, m.Flying)
	require.NoError(t, m.CTS(10))
	_, ok := m.Next(10)
	require.False(t, ok)
	require.NoError(t, m.Fail())
	require.Equal(t, TxErr, m.State)
}

// TestNotGranted: before its turn a message has nothing to post.
func TestNotGranted(t *testing.T) {
	m := Tx{State: TxReq, Total: 10}
	_, ok := m.Next(100)
	require.False(t, ok)
}

func TestRxTake(t *testing.T) {
	for _, c := range []struct {
		name   string
		off, n uint64
		data   bool
		ok     bool
	}{
		{"REQ", 0, 50, false, true},
		{"CTSDATA in the window", 60, 30, true, true},
		{"CTSDATA beyond the window", 60, 31, true, false},
		{"empty CTSDATA", 60, 0, true, false},
		{"beyond the message", 99, 2, false, false},
		{"offset beyond the message", 101, 0, false, false},
		{"huge offset", 1<<64 - 1, 2, false, false},
		{"more than is missing", 0, 61, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := Rx{State: RxMatched, Proto: LongCTS, Total: 100, packets: 100, Got: 40, Window: 30}
			ok := m.Take(c.off, c.n, c.data)
			require.Equal(t, c.ok, ok)
			if !ok {
				require.ErrorIs(t, m.misfit(c.off, c.n, c.data), ErrViolation)
				require.Equal(t, Rx{State: RxMatched, Proto: LongCTS, Total: 100, packets: 100, Got: 40, Window: 30}, m)
				return
			}
			require.Equal(t, 40+c.n, m.Got)
		})
	}
}

func TestRxGrant(t *testing.T) {
	m := Rx{State: RxMatched, Proto: LongCTS, Total: 100, packets: 100, Got: 40}
	require.EqualValues(t, 25, m.Grant(25))
	require.EqualValues(t, 60, m.Grant(1000))
	m.Granted(25)
	require.Zero(t, m.Grant(25), "the window before is not used up")
	require.Zero(t, (&Rx{State: RxUnexp, Proto: LongCTS, Total: 100, packets: 100}).Grant(25), "nobody receives it")
	require.Zero(t, (&Rx{State: RxMatched, Proto: Medium, Total: 100}).Grant(25))
	require.Zero(t, (&Rx{State: RxMatched, Proto: LongCTS, Total: 100, packets: 100, Got: 100}).Grant(25))
}
