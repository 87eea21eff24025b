package death

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/efactor/efactor/actors/ope"
)

// answers are the subprotocols that no operation of its own goes by.
var answers = map[string]string{
	"read response":   "is the target's half of the reads",
	"atomic response": "is the target's half of the atomics that fetch",
	"receipt":         "is the target's half of the DC write atomic",
	"peer error":      "is how a side gives up: in what was canceled, and after faults",
	"headerless":      "is not tried: no endpoint of ours has the user receive queue pair that it needs",
}

// print makes the table.
func (z *results) print(all []*steps) string {
	var b strings.Builder
	line := func(name string, y *tally) {
		fmt.Fprintf(&b, "%-52s %7d %6d %14v %14v\n", name, y.tried, y.open,
			y.outcome.Round(time.Microsecond), y.clean.Round(time.Microsecond))
	}
	head := func(what string) {
		fmt.Fprintf(&b, "\n%-52s %7s %6s %14s %14s\n", what, "rows", "open", "worst outcome", "all is back")
	}
	head("subprotocol")
	seen := map[string]bool{}
	for _, x := range all {
		if name := x.play.String(); !seen[name] && z.byPlay[name] != nil {
			seen[name] = true
			line(name, z.byPlay[name])
		}
	}
	for p := range ope.NumProtos {
		if why, ok := answers[p.String()]; ok {
			fmt.Fprintf(&b, "%-52s %s\n", p, why)
		}
	}
	head("fault")
	for _, f := range faults {
		if y := z.byFault[f.name]; y != nil {
			line(f.name, y)
		}
	}
	head("step: state and event")
	for i, p := range pairs() {
		if y := z.byPair[i]; y != nil {
			line(p.String(), y)
		} else {
			fmt.Fprintf(&b, "%-52s %s\n", p, z.whyNot(i, p))
		}
	}
	head("")
	line("all", &z.all)
	return b.String()
}

// whyNot says why no row has a step.
func (z *results) whyNot(i int, p pair) string {
	if n := z.hits[i]; n > 0 {
		return fmt.Sprintf("comes of a fault only: %d times in the rows", n)
	}
	for _, x := range []struct {
		events []string
		why    string
	}{
		{[]string{"abandon"}, "an error event: comes when a queue pair is closed at such a moment"},
		{[]string{"fail", "read-failed", "late"}, "an error event: comes of two faults"},
		{[]string{"too-late", "until-cts"}, "needs a cancellation that crosses it"},
	} {
		if slices.Contains(x.events, p.event) {
			return x.why
		}
	}
	if why := elsewhere[p.String()]; why != "" {
		return why
	}
	return notTaken
}

const notTaken = "NOT TAKEN"

// elsewhere has what no play can make come.
var elsewhere = map[string]string{
	"tx TXE_REQ answered":        "needs a peer that breaks the protocol: EOR before the runt is out",
	"tx TXE_REQ delivered":       "leaves nothing open: the simulated device does not know at post what has arrived",
	"tx OPE_ERR cts":             "needs a peer that breaks the protocol, or a CTS that crosses a failure",
	"caller WITHDRAWING outcome": "comes of two faults: the peer fails while it is asked",
}
