package ope

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
				require.EqualValues(t, 1, steps.caller[entryOf(uint8(s), uint8(e))])
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
