package ope

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/efactor/efactor/actors/machine"
	"github.com/efactor/efactor/actors/settings"
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
		of, flags := f, Flags(0) // of.room(0) is what Link.Room holds
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

var rewrite = flag.Bool("rewrite-tables", false, "write testdata/*.golden anew")

// TestTables compares the machines as text, so that a changed edge shows.
func TestTables(t *testing.T) {
	var tx, rx, caller strings.Builder
	printTable(&tx, txNames[:], txEventNames[:], func(s, e int) (int, bool) { n := txTable[s][e]; return int(n.next), n.ok })
	printTable(&rx, rxNames[:], rxEventNames[:], func(s, e int) (int, bool) { n := rxTable[s][e]; return int(n.next), n.ok })
	printTable(&caller, callerNames[:], callerEventNames[:], func(s, e int) (int, bool) {
		n := callerTable[s][e]
		return int(n.next), n.ok
	})
	golden(t, "testdata/tx.golden", tx.String())
	golden(t, "testdata/rx.golden", rx.String())
	golden(t, "testdata/caller.golden", caller.String())
}

// printTable writes a row a state, a column an event; - is a violation.
func printTable(b *strings.Builder, states, events []string, next func(s, e int) (int, bool)) {
	fmt.Fprintf(b, "%-12s", "")
	for _, e := range events {
		fmt.Fprintf(b, " %-12s", e)
	}
	for s := range states {
		fmt.Fprintf(b, "\n%-12s", states[s])
		for e := range events {
			to := "-"
			if n, ok := next(s, e); ok {
				to = states[n]
			}
			fmt.Fprintf(b, " %-12s", to)
		}
	}
	text := strings.Split(b.String(), "\n")
	b.Reset()
	for _, l := range text {
		b.WriteString(strings.TrimRight(l, " ") + "\n")
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// TestTablesAreSound: every state can be reached, an operation in progress can
// fail, and what has ended doesn't begin again.
func TestTablesAreSound(t *testing.T) {
	check := func(t *testing.T, states, events, fail int, done, failed, other int, next func(s, e int) (int, bool)) {
		reached := map[int]bool{0: true, other: true}
		for range states {
			for s := range states {
				for e := range events {
					if n, ok := next(s, e); ok && reached[s] {
						reached[n] = true
					}
				}
			}
		}
		require.Len(t, reached, states)
		for s := range states {
			for e := range events {
				n, ok := next(s, e)
				switch {
				case s == done:
					require.False(t, ok, "event %d of what is done", e)
				case s == failed:
					require.True(t, !ok || n == failed)
				case e == fail:
					require.True(t, ok)
					require.Equal(t, failed, n)
				}
			}
		}
	}
	t.Run("tx", func(t *testing.T) {
		check(t, numTxStates, numTxEvents, int(TxFail), int(TxDone), int(TxErr), int(TxReq), func(s, e int) (int, bool) {
			return int(txTable[s][e].next), txTable[s][e].ok
		})
	})
	t.Run("rx", func(t *testing.T) {
		check(t, numRxStates, numRxEvents, int(RxFail), int(RxDone), int(RxErr), int(RxAsk), func(s, e int) (int, bool) {
			return int(rxTable[s][e].next), rxTable[s][e].ok
		})
	})
}

// TestCallerIsSound: a caller that waits can get its outcome from every state, gets it
// once, and then never waits again.
func TestCallerIsSound(t *testing.T) {
	reached := map[CallerState]bool{CallerHolding: true}
	for range numCallerStates {
		for s := range CallerState(numCallerStates) {
			waits := !(&Caller{state: s}).Told()
			for e := range CallerEvent(numCallerEvents) {
				n := callerTable[s][e]
				if !n.ok {
					continue
				}
				if reached[s] {
					reached[n.next] = true
				}
				if !waits {
					require.True(t, (&Caller{state: n.next}).Told(), "%s in state %s", e, s)
				}
			}
			require.Equal(t, waits, callerTable[s][CallerOutcome].ok, s)
			if waits {
				require.Equal(t, CallerTold, callerTable[s][CallerOutcome].next, s)
			}
		}
	}
	require.Len(t, reached, numCallerStates)
}

// TestEveryPair steps each machine with each event in each state: the table is
// obeyed, and a pair without an entry is a violation that changes nothing.
func TestEveryPair(t *testing.T) {
	for s := range TxState(numTxStates) {
		for e := range TxEvent(numTxEvents) {
			m := Tx{State: s}
			if want := txTable[s][e]; want.ok {
				require.NoError(t, m.step(e))
				require.Equal(t, want.next, m.State)
			} else {
				require.ErrorIs(t, m.step(e), ErrViolation)
				require.Equal(t, s, m.State)
			}
		}
	}
	for s := range CallerState(numCallerStates) {
		for e := range CallerEvent(numCallerEvents) {
			var steps Steps
			m := Caller{state: s, steps: &steps}
			if want := callerTable[s][e]; want.ok {
				require.NoError(t, m.Step(e))
				require.Equal(t, want.next, m.State())
				require.EqualValues(t, 1, steps.caller[machine.Entry(uint8(s), uint8(e))])
			} else {
				require.ErrorIs(t, m.Step(e), ErrViolation)
				require.Equal(t, s, m.State())
				require.Zero(t, steps)
			}
		}
	}
	for s := range RxState(numRxStates) {
		for e := range RxEvent(numRxEvents) {
			m := Rx{State: s}
			if want := rxTable[s][e]; want.ok {
				require.NoError(t, m.Step(e))
				require.Equal(t, want.next, m.State)
			} else {
				require.ErrorIs(t, m.Step(e), ErrViolation)
				require.Equal(t, s, m.State)
			}
		}
	}
}

// TestPosted: which state a posted packet leads to.
func TestPosted(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape Shape
		want  []TxState // after each packet of the request or response
	}{
		{"a message in one packet", Shape{Proto: Eager, Total: 10, End: 10, Seg: 10, Parts: 1}, []TxState{TxDrain}},
		{"a message of nothing", Shape{Proto: Eager, Parts: 1}, []TxState{TxDrain}},
		{"several packets", Shape{Proto: Medium, Total: 10, End: 10, Seg: 4, Parts: 3}, []TxState{TxReq, TxReq, TxDrain}},
		{"RECEIPT is to come", Shape{Proto: DCMedium, Total: 10, End: 10, Seg: 5, Parts: 2}, []TxState{TxReq, TxAwait}},
		{"EOR is to come", Shape{Proto: LongRead, Total: 10, Parts: 1}, []TxState{TxAwait}},
		{"a runt that is all", Shape{Proto: RuntRead, Total: 10, End: 10, Seg: 5, Parts: 2}, []TxState{TxReq, TxDrain}},
		{"CTS is to come", Shape{Proto: LongCTS, Total: 10, End: 10, Seg: 4, Parts: 1}, []TxState{TxWait}},
		{"CTS would be for nothing", Shape{Proto: LongCTS, Total: 4, End: 4, Seg: 4, Parts: 1}, []TxState{TxDrain}},
		{"the same with RECEIPT", Shape{Proto: DCLongCTS, Total: 4, End: 4, Seg: 4, Parts: 1}, []TxState{TxAwait}},
		{"a window is open already", Shape{Proto: ReadResponse, Total: 10, End: 10, Seg: 4, Parts: 1, Window: 6}, []TxState{TxSend}},
		{"the window is used up", Shape{Proto: ReadResponse, Total: 10, End: 10, Seg: 4, Parts: 1, Window: 4}, []TxState{TxWait}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Tx
			m.Start(&c.shape)
			for i, want := range c.want {
				seg, ok := m.Next(1000)
				require.True(t, ok)
				require.False(t, seg.Data)
				require.NoError(t, m.Posted(seg))
				require.Equal(t, want, m.State, "packet %d", i)
				require.EqualValues(t, i+1, m.Flying)
			}
		})
	}
}

// TestEagerMachine: the steps of a message in one packet come to the same as the general ones.
func TestEagerMachine(t *testing.T) {
	for _, n := range []int{0, 1, 8000} {
		var want, got Tx
		want.Start(&Shape{Proto: Eager, Total: uint64(n), End: uint64(n), Seg: n, Parts: 1})
		got.StartEager(n)
		require.Equal(t, want, got)
		delivered := got
		seg, ok := want.Next(0)
		require.True(t, ok)
		require.NoError(t, want.Posted(seg))
		require.True(t, got.Whole())
		require.Equal(t, want, got)
		require.False(t, got.Whole(), "it was posted already")
		require.NoError(t, want.Ack(n))
		require.True(t, delivered.Delivered())
		require.Equal(t, want, delivered)
		require.True(t, delivered.Over())
		require.False(t, delivered.Delivered())
		delivered.Reset()
		require.Equal(t, Tx{}, delivered)
	}
}

// TestExpect: the length of an operation that waits for its turn shows, until Start has the word.
func TestExpect(t *testing.T) {
	var m Tx
	m.Expect(10)
	require.EqualValues(t, 10, m.Total)
	m.Start(&Shape{Proto: FetchAtomic, Total: 8, End: 8, Seg: 8, Parts: 1})
	m.Expect(10)
	require.EqualValues(t, 8, m.Total)
}

// TestBadCTS: a grant that the protocol does not allow changes nothing (§3.2).
func TestBadCTS(t *testing.T) {
	wait := Tx{State: TxWait, Proto: LongCTS, Total: 100, end: 100, Sent: 40}
	for _, c := range []struct {
		name string
		edit func(*Tx)
		n    uint64
		ok   bool
	}{
		{"all that is left", func(*Tx) {}, 60, true},
		{"a byte", func(*Tx) {}, 1, true},
		{"nothing", func(*Tx) {}, 0, false},
		{"more than is left", func(*Tx) {}, 61, false},
		{"a number that wraps around", func(*Tx) {}, math.MaxUint64, false},
		{"before the window is used up", func(m *Tx) { m.State, m.Window = TxSend, 5 }, 10, false},
		{"before the request is out", func(m *Tx) { m.State = TxReq }, 10, false},
		{"a message without CTS", func(m *Tx) { m.Proto = Medium }, 10, false},
		{"what the peer reads", func(m *Tx) { m.Proto, m.end = RuntRead, 40 }, 10, false},
		{"after the end", func(m *Tx) { m.State = TxDone }, 10, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := wait
			c.edit(&m)
			was := m
			err := m.CTS(c.n)
			if c.ok {
				require.NoError(t, err)
				require.Equal(t, TxSend, m.State)
				require.Equal(t, c.n, m.Window)
				return
			}
			require.ErrorIs(t, err, ErrViolation)
			require.Equal(t, was, m)
		})
	}
}

// TestEnds: an operation that has ended well stays so.
func TestEnds(t *testing.T) {
	tx := Tx{State: TxDone, Flying: 0}
	require.NoError(t, tx.Fail())
	require.NoError(t, tx.Abandon())
	require.Equal(t, TxDone, tx.State)
	tx = Tx{State: TxDrain, Flying: 3}
	require.NoError(t, tx.Abandon())
	require.Equal(t, TxErr, tx.State)
	require.Zero(t, tx.Flying, "no packet is awaited any more")
	rx := Rx{State: RxDone}
	require.NoError(t, rx.Abandon())
	require.Equal(t, RxDone, rx.State)
	rx = Rx{State: RxMatched, reading: 2}
	require.NoError(t, rx.Abandon())
	require.Equal(t, RxErr, rx.State)
	require.Zero(t, rx.reading)
}

// TestRxReads: what is read is what does not come in packets, as far as there is room for it.
func TestRxReads(t *testing.T) {
	for _, c := range []struct {
		name                 string
		total, packets, room uint64
		want                 []uint64 // lengths of reads of at most 40 bytes, from packets on
		here                 bool     // with the packets' bytes all is there without them
	}{
		{"all of it", 100, 0, 100, []uint64{40, 40, 20}, false},
		{"behind a runt", 100, 30, 100, []uint64{40, 30}, false},
		{"room for less", 100, 0, 50, []uint64{40, 10}, false},
		{"room for the runt alone", 100, 30, 30, nil, true},
		{"room for less than the runt", 100, 30, 10, nil, true},
		{"no room", 100, 0, 0, nil, true},
		{"more room than message", 70, 0, 1000, []uint64{40, 30}, false},
		{"a runt that is all", 100, 100, 100, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Rx
			m.Begin(RxMatched, RuntRead, c.total, c.packets)
			m.StartReading(c.room)
			require.True(t, m.Take(0, c.packets, false))
			require.True(t, m.PacketsIn())
			require.Equal(t, c.here, m.Complete())
			next := c.packets
			for _, n := range c.want {
				off, got, ok := m.NextRead(40)
				require.True(t, ok)
				require.Equal(t, next, off)
				require.Equal(t, n, got)
				m.Reads(got)
				next += n
			}
			_, _, ok := m.NextRead(40)
			require.False(t, ok)
			for i, n := range c.want {
				require.False(t, m.Complete(), "read %d is under way", i)
				m.ReadDone(n)
			}
			require.True(t, m.Complete())
		})
	}
}

// TestRxStopsReading: ways to end reading early, and what counts as come then.
func TestRxStopsReading(t *testing.T) {
	begin := func() *Rx {
		m := new(Rx)
		m.Begin(RxMatched, LongRead, 100, 0)
		m.StartReading(100)
		m.Reads(40)
		return m
	}
	m := begin()
	m.StopReading()
	_, _, ok := m.NextRead(40)
	require.False(t, ok)
	m.ReadDone(40)
	require.False(t, m.Complete(), "60 bytes were not read")
	m = begin()
	m.Forgo()
	require.False(t, m.Complete(), "a read is under way")
	m.ReadDone(40)
	require.True(t, m.Complete())
	m = begin()
	require.NoError(t, m.ReadFailed())
	require.Zero(t, m.reading)
	require.False(t, m.Complete())
	m.ForgoAll()
	require.True(t, m.Complete())
}

// TestRxRefuse: after READ_NACK all that is missing comes in packets (§4.7).
func TestRxRefuse(t *testing.T) {
	var m Rx
	m.Begin(RxMatched, RuntRead, 100, 30)
	m.StartReading(100)
	require.True(t, m.Take(0, 30, false))
	require.NoError(t, m.Refuse())
	require.False(t, m.PacketsIn())
	require.Zero(t, m.Grant(50), "the replacement is to come")
	m.Replace(LongCTS)
	require.EqualValues(t, 50, m.Grant(50))
	m.Granted(50)
	require.True(t, m.Take(30, 50, true))
	require.EqualValues(t, 20, m.Grant(50))
	m.Granted(20)
	require.False(t, m.Complete())
	require.True(t, m.Take(80, 20, true))
	require.True(t, m.Complete())
	m.State = RxUnexp
	require.ErrorIs(t, m.Refuse(), ErrViolation)
}

// TestRxWhole: a message that a receive waits for is over with its packet.
func TestRxWhole(t *testing.T) {
	var m Rx
	m.Begin(RxInit, Eager, 10, 10)
	require.True(t, m.Whole())
	require.Equal(t, RxDone, m.State)
	require.True(t, m.Complete())
	require.False(t, m.Whole())
}

// TestCallerStories are the ways of a caller from its request to its outcome.
func TestCallerStories(t *testing.T) {
	for _, c := range []struct {
		name   string
		events []CallerEvent
		want   []CallerState
	}{
		{"it waits", []CallerEvent{CallerOutcome}, []CallerState{CallerTold}},
		{"withdrawn", []CallerEvent{CallerWithdraw, CallerWithdrawn, CallerOutcome}, []CallerState{CallerWithdrawing, CallerLeaving, CallerTold}},
		{"too late, copied", []CallerEvent{CallerWithdraw, CallerTooLate, CallerCopied}, []CallerState{CallerWithdrawing, CallerLeaving, CallerDetached}},
		{"its peer fails", []CallerEvent{CallerWithdraw, CallerOutcome}, []CallerState{CallerWithdrawing, CallerTold}},
		{"ends with the CTS", []CallerEvent{CallerCancel, CallerUntilCTS, CallerCTS}, []CallerState{CallerLeaving, CallerEnding, CallerTold}},
		{"late", []CallerEvent{CallerCancel, CallerLate, CallerOutcome}, []CallerState{CallerLeaving, CallerLeaving, CallerTold}},
		{"its region closes", []CallerEvent{CallerRevoke, CallerOutcome}, []CallerState{CallerRevoked, CallerTold}},
		{"its region closes while it leaves", []CallerEvent{CallerCancel, CallerRevoke, CallerOutcome}, []CallerState{CallerLeaving, CallerRevoked, CallerTold}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Caller
			m.Start(true)
			told := 0
			for i, e := range c.events {
				was := m.Told()
				require.NoError(t, m.Step(e))
				require.Equal(t, c.want[i], m.State())
				if m.Told() && !was {
					told++
				}
			}
			require.Equal(t, 1, told, "outcomes")
			require.ErrorIs(t, m.Step(CallerOutcome), ErrViolation)
			m.Start(false)
			require.True(t, m.Told(), "an answer to a peer has no caller")
		})
	}
}

// TestSteps: every pair of the tables is reported, with its count.
func TestSteps(t *testing.T) {
	var c Steps
	tx, rx := Tx{}, Rx{}
	tx.Count(&c)
	rx.Count(&c)
	tx.StartEager(1)
	require.True(t, tx.Whole())
	require.Error(t, tx.step(TxNACK), "a violation is not counted")
	rx.Begin(RxInit, Eager, 1, 1)
	require.True(t, rx.Whole())
	tx.Reset()
	tx.StartEager(1)
	require.True(t, tx.Whole(), "it goes on counting")
	got, pairs := map[string]uint64{}, map[string]int{}
	c.Each(func(machine, state, event string, n uint64) {
		pairs[machine]++
		if n > 0 {
			got[machine+" "+state+" "+event] = n
		}
	})
	require.Equal(t, map[string]uint64{"tx TXE_REQ posted-all": 2, "rx RXE_INIT whole": 1}, got)
	edges := map[string]int{}
	for s := range machine.States {
		for e := range machine.Events {
			for machine, ok := range map[string]bool{"tx": txTable[s][e].ok, "rx": rxTable[s][e].ok, "caller": callerTable[s][e].ok} {
				if ok {
					edges[machine]++
				}
			}
		}
	}
	require.Equal(t, edges, pairs)
}
