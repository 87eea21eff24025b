package ope

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/actors/settings"
)

// TestAnswers lets answers and acknowledgements come in either order (§4.1, §4.2):
// an operation is done when it has both, and no sooner.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		proto Proto
		what  answer
	}{
		{DCEager, receipt},
		{DCMedium, receipt},
		{LongRead, eor},
		{DCEagerWrite, receipt},
		{LongReadWrite, eor},
		{FetchAtomic, atomRsp},
		{CompareAtomic, atomRsp},
		{DCWriteAtomic, receipt},
	} {
		for _, first := range []bool{false, true} {
			s := Shape{Proto: c.proto, Total: 100, End: 100, Seg: 50, Parts: 2}
			if c.proto.readBased() {
				s.End, s.Parts = 0, 1
			}
			if !protos[c.proto].parts {
				s.Seg, s.Parts = 100, 1
			}
			var m Tx
			m.Start(&s)
			require.ErrorIs(t, m.Answer(c.what), ErrViolation, "%s: an answer before the question", c.proto)
			var flying []int
			for m.State == TxReq {
				seg, ok := m.Next(0)
				require.True(t, ok)
				require.NoError(t, m.Posted(seg))
				flying = append(flying, int(seg.Len))
			}
			require.Equal(t, TxAwait, m.State, c.proto)
			for _, other := range []answer{receipt, eor, atomRsp} {
				if other != c.what {
					require.ErrorIs(t, m.Answer(other), ErrViolation)
				}
			}
			if first {
				require.NoError(t, m.Answer(c.what))
				require.Equal(t, TxDrain, m.State)
			}
			for _, n := range flying {
				require.NotEqual(t, TxDone, m.State)
				require.NoError(t, m.Ack(n))
			}
			if !first {
				require.Equal(t, TxAwait, m.State)
				require.NoError(t, m.Answer(c.what))
			}
			require.Equal(t, TxDone, m.State)
			require.ErrorIs(t, m.Answer(c.what), ErrViolation, "a second answer")
		}
	}
}

// TestRuntEOR: the receiver may have read the rest before the last packets of the
// runt are out (§4.5); without a rest nothing is to be answered.
func TestRuntEOR(t *testing.T) {
	var m Tx
	m.Start(&Shape{Proto: RuntRead, Total: 1000, End: 100, Seg: 50, Parts: 2})
	seg, _ := m.Next(0)
	require.NoError(t, m.Posted(seg))
	require.NoError(t, m.Answer(eor))
	require.Equal(t, TxReq, m.State)
	seg, ok := m.Next(0)
	require.True(t, ok)
	require.NoError(t, m.Posted(seg))
	require.Equal(t, TxDrain, m.State)
	require.NoError(t, m.Ack(50))
	require.NoError(t, m.Ack(50))
	require.Equal(t, TxDone, m.State)

	m.Start(&Shape{Proto: RuntRead, Total: 100, End: 100, Seg: 100, Parts: 1})
	seg, _ = m.Next(0)
	require.NoError(t, m.Posted(seg))
	require.ErrorIs(t, m.Answer(eor), ErrViolation)
	require.NoError(t, m.Ack(100))
	require.Equal(t, TxDone, m.State)
}

// TestNACK: what was refused goes by long-CTS, from the end of the runt on, after
// an empty request; it cannot be refused again (§4.7).
func TestNACK(t *testing.T) {
	for _, runt := range []uint64{0, 100} {
		var m Tx
		s := Shape{Proto: LongRead, Total: 1000, Parts: 1}
		if runt > 0 {
			s = Shape{Proto: RuntRead, Total: 1000, End: runt, Seg: int(runt), Parts: 1}
		}
		m.Start(&s)
		again := Shape{Proto: LongCTS, Total: 1000, End: 1000, Sent: runt, Parts: 1}
		require.ErrorIs(t, m.NACK(&again), ErrViolation, "nothing was posted")
		seg, _ := m.Next(0)
		require.NoError(t, m.Posted(seg))
		require.NoError(t, m.NACK(&again))
		seg, ok := m.Next(0)
		require.True(t, ok)
		require.Equal(t, Segment{Off: runt}, seg)
		require.NoError(t, m.Posted(seg))
		require.ErrorIs(t, m.NACK(&again), ErrViolation)
		require.NoError(t, m.Ack(int(runt)), "the runt's packet")
		require.NoError(t, m.CTS(1000-runt))
		seg, _ = m.Next(10000)
		require.Equal(t, Segment{Off: runt, Len: 1000 - runt, Data: true}, seg)
		require.NoError(t, m.Posted(seg))
		require.NoError(t, m.Ack(0))
		require.NoError(t, m.Ack(int(1000-runt)))
		require.Equal(t, TxDone, m.State)
		require.EqualValues(t, 1000, m.Acked)
	}
}

// TestReadResponse: the READRSP and CTSDATA go in the window that the request
// granted, then in those of CTS (§3.3).
func TestReadResponse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Uint64Range(0, 3000).Draw(t, "total")
		window := rapid.Uint64Range(min(total, 1), total).Draw(t, "window")
		first := min(rapid.Uint64Range(1, 500).Draw(t, "first"), window)
		var m Tx
		m.Start(&Shape{Proto: ReadResponse, Total: total, End: total, Seg: int(first), Parts: 1, Window: window})
		granted := window
		for steps := 0; m.State != TxDrain; steps++ {
			if steps > 10000 {
				t.Fatalf("no end: %+v", m)
			}
			s, ok := m.Next(300)
			if !ok {
				n := rapid.Uint64Range(1, total-m.Sent).Draw(t, "grant")
				if err := m.CTS(n); err != nil {
					t.Fatal(err)
				}
				granted += n
				continue
			}
			if err := m.Posted(s); err != nil {
				t.Fatal(err)
			}
			if m.Sent > granted || s.Data != (steps > 0) {
				t.Fatalf("sent %d of %d granted, %+v", m.Sent, granted, s)
			}
		}
		if m.Sent != total {
			t.Fatalf("sent %d of %d", m.Sent, total)
		}
	})
}

// TestShortIsChoice: the way for messages that fit a packet is what Choose says.
func TestShortIsChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := plain(Facts{Kind: KindSend})
		f.RawAddr, f.ConnID = rapid.Bool().Draw(t, "raw"), rapid.Bool().Draw(t, "connid")
		f.HasData, f.Tagged = rapid.Bool().Draw(t, "data"), rapid.Bool().Draw(t, "tagged")
		f.Total = rapid.IntRange(testMTU-80, testMTU).Draw(t, "total")
		p := policyOf(settings.Settings{})
		s, err := f.Choose(&p)
		if err != nil {
			t.Fatal(err)
		}
		of, flags := f.Headers, Flags(0) // of.room(0) is what Link.Room holds
		of.HasData = false
		if f.Tagged {
			flags |= Tagged
		}
		if f.HasData {
			flags |= HasData
		}
		if short := f.Total+eagerHeaders(flags) <= of.room(0); short != (s.Proto == Eager) {
			t.Fatalf("%+v goes by %s", f, s.Proto)
		}
	})
}
