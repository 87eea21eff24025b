package ope

// CallerState is what the application still holds of an operation: the outcome that it
// waits for, and the buffer that it must not touch before.
//
//	                cancel              copied
//	HOLDING -----------------> LEAVING ---------> DETACHED
//	  |   |                     ^  |  |
//	  |   | withdraw  withdrawn |  |  | until-cts         cts
//	  |   +----> WITHDRAWING ---+  |  +---------> ENDING -----> TOLD
//	  |                 too-late   | revoke
//	  +------- revoke -------> REVOKED
//
//	HOLDING, WITHDRAWING, LEAVING, REVOKED --outcome--> TOLD
//
// Table callerTable has every edge. An operation without a caller, such as the answer to
// a peer's request, begins in TOLD.
type CallerState uint8

// The states. In the first four the caller waits for its outcome.
const (
	CallerHolding     CallerState = iota
	CallerWithdrawing             // canceled before its turn: the peer was asked to take it out of the line
	CallerLeaving                 // canceled: it gets its outcome when nothing needs its buffer
	CallerRevoked                 // its memory region is being closed: it waits for the packets that need it
	CallerDetached                // it has its outcome, the operation goes on with a copy of the rest
	CallerEnding                  // it has its outcome, the operation ends with the first CTS
	CallerTold                    // it has its outcome
	numCallerStates   = iota
)

var callerNames = [numCallerStates]string{"HOLDING", "WITHDRAWING", "LEAVING", "REVOKED", "DETACHED", "ENDING", "TOLD"}

func (s CallerState) String() string { return callerNames[s] }

// CallerEvent is what can happen to the caller of an operation.
type CallerEvent uint8

// The events.
const (
	CallerWithdraw  CallerEvent = iota // it cancels an operation that is in the peer's line
	CallerWithdrawn                    // the peer took the operation out of the line
	CallerTooLate                      // the operation's turn had come before that
	CallerCancel                       // it cancels an operation that is under way
	CallerRevoke                       // a region that the peer may read is being closed
	CallerCopied                       // what is not sent yet was copied
	CallerUntilCTS                     // no data is needed: the next CTS is answered with PEER_ERROR
	CallerCTS                          // that CTS came
	CallerLate                         // the buffer was needed for longer than PeerTimeout
	CallerOutcome                      // it gets its outcome
	numCallerEvents = iota
)

var callerEventNames = [numCallerEvents]string{
	"withdraw", "withdrawn", "too-late", "cancel", "revoke", "copied", "until-cts", "cts", "late", "outcome",
}

func (e CallerEvent) String() string { return callerEventNames[e] }

type callerNext struct {
	next CallerState
	ok   bool
}

// callerTable is the whole machine: a pair with no entry is a violation.
var callerTable = [maxStates][maxEvents]callerNext{
	CallerHolding: {
		CallerWithdraw: {CallerWithdrawing, true}, CallerCancel: {CallerLeaving, true},
		CallerRevoke: {CallerRevoked, true}, CallerOutcome: {CallerTold, true},
	},
	CallerWithdrawing: {
		CallerWithdrawn: {CallerLeaving, true}, CallerTooLate: {CallerLeaving, true}, CallerOutcome: {CallerTold, true},
	},
	CallerLeaving: {
		CallerRevoke: {CallerRevoked, true}, CallerCopied: {CallerDetached, true}, CallerUntilCTS: {CallerEnding, true},
		CallerLate: {CallerLeaving, true}, CallerOutcome: {CallerTold, true},
	},
	CallerRevoked: {CallerOutcome: {CallerTold, true}},
	CallerEnding:  {CallerCTS: {CallerTold, true}},
}

var callerMoves = movesOf(func(s, e int) (uint8, bool) { n := callerTable[s][e]; return uint8(n.next), n.ok })

// Caller is the machine of an operation's caller: pure, like [Tx] and [Rx]. The txe or
// rxe says what happened and acts on the state.
type Caller struct {
	state CallerState
	steps *Steps // counts what happens; may be nil
}

// Count has the machine count what happens in steps, from now on.
func (c *Caller) Count(steps *Steps) { c.steps = steps }

// Start arms the machine. waits says that there is a caller.
func (c *Caller) Start(waits bool) {
	c.state = CallerHolding
	if !waits {
		c.state = CallerTold
	}
}

// State is where the caller stands.
func (c *Caller) State() CallerState { return c.state }

// Told reports whether the caller has its outcome, or there is none.
func (c *Caller) Told() bool { return c.state >= CallerDetached }

// Step moves the machine.
func (c *Caller) Step(e CallerEvent) error {
	if !c.move(e) {
		return noEdge(e, c.state)
	}
	return nil
}

// move is Step, and reports whether the table has an edge.
func (c *Caller) move(e CallerEvent) bool {
	i := entryOf(uint8(c.state), uint8(e))
	n := callerMoves[i]
	if n == noMove {
		return false
	}
	if c.state = CallerState(n); c.steps != nil {
		c.steps.caller[i]++
	}
	return true
}
