package eratest

import "fmt"

// Rule names what a packet did wrong.
type Rule string

// The rules.
const (
	RuleVersion      Rule = "version"       // the version is not 4
	RuleType         Rule = "type"          // a packet type that the era has not
	RuleForm         Rule = "form"          // the packet ends within its headers, or a count is too large
	RuleFeature      Rule = "feature"       // a packet of a feature that the endpoint did not advertise
	RuleConnID       Rule = "connid"        // a connid header that was not asked for: it is taken for data
	RuleRawAddr      Rule = "raw-address"   // a raw address header of a length that no release sends
	RuleIntroduction Rule = "introduction"  // a request without raw address before HANDSHAKE went out
	RuleConstant     Rule = "constant"      // one that came later, though constant headers were asked for
	RuleUserQP       Rule = "user-recv-qp"  // a message with headers to an endpoint that takes none
	RuleHandshake    Rule = "handshake"     // a second HANDSHAKE
	RuleAhead        Rule = "ahead"         // a message beyond the window for those ahead of their turn
	RuleDuplicate    Rule = "duplicate"     // a msg_id that was used before
	RuleSegment      Rule = "segment"       // data that overlaps, lies outside, or is of another message
	RuleEarlyData    Rule = "early-data"    // CTSDATA before HANDSHAKE went out
	RuleWindow       Rule = "window"        // more data than was granted
	RuleGrant        Rule = "grant"         // a CTS of nothing, of too much, too early, or of the wrong kind
	RuleFirstWindow  Rule = "first-window"  // a read whose first window is less than its READRSP
	RuleID           Rule = "id"            // an answer to nothing
	RuleNACK         Rule = "nack"          // READ_NACK, or what replaces a message, out of place
	RuleLengths      Rule = "lengths"       // lengths that contradict each other
	RuleCount        Rule = "rma-iov-count" // an atomic on no place or on too many places
	RuleAtomic       Rule = "atomic"        // an operation that does not exist, or not for that type
)

// Fault is the error of a Judge.
type Fault struct {
	Era    string // the profile's name
	Rule   Rule
	Why    string
	Packet string // as wiretext.Summary describes it
}

// Error implements error.
func (f *Fault) Error() string {
	return fmt.Sprintf("eratest: %s: %s: %s (%s)", f.Era, f.Rule, f.Why, f.Packet)
}

// bad makes a fault; its caller fills in the rest.
func bad(r Rule, format string, args ...any) *Fault {
	return &Fault{Rule: r, Why: fmt.Sprintf(format, args...)}
}
