package wire

import "errors"

// Causes of a ParseError.
var (
	ErrShort        = errors.New("packet is too short")
	ErrVersion      = errors.New("protocol version is not 4")
	ErrType         = errors.New("wrong, unknown or retired packet type")
	ErrNotSupported = errors.New("packet type without a known layout")
	ErrLength       = errors.New("length is out of bounds")
	ErrCount        = errors.New("list is too long")

	// ErrAddr is wrapped by the errors of ParseRawAddr.
	ErrAddr = errors.New("malformed raw address")
)

// ParseError describes the error in a packet. Errors of this package are
// made once, so a flood of bad packets costs no allocation; they are compared
// with errors.Is and must not be changed.
type ParseError struct {
	// Type is the packet's own type, 0 if it was too short to have one.
	Type    Type
	problem problem
}

// Field is the specification's name of the field that was wrong.
func (e *ParseError) Field() string { return problems[e.problem].field }

// Unwrap gives the cause: one of this package's sentinel errors.
func (e *ParseError) Unwrap() error { return problems[e.problem].cause }

func (e *ParseError) Error() string {
	return "wire: " + e.Type.String() + ": " + e.Field() + ": " + e.Unwrap().Error()
}

// problem is one way in which a packet can be wrong.
type problem uint8

const (
	fine problem = iota
	baseShort
	badVersion
	badType
	noLayout
	headerShort
	connIDShort
	rawAddrShort
	rawAddrSize
	cqDataShort
	rmaIOVCount
	rmaIOVShort
	readIOVCount
	readIOVShort
	extraInfoCount
	extraInfoShort
	handshakeShort
	peerErrorLength
	numProblems
)

var problems = [numProblems]struct {
	field string
	cause error
}{
	baseShort:       {"base", ErrShort},
	badVersion:      {"version", ErrVersion},
	badType:         {"type", ErrType},
	noLayout:        {"type", ErrNotSupported},
	headerShort:     {"header", ErrShort},
	connIDShort:     {"connid", ErrShort},
	rawAddrShort:    {"raw_addr", ErrShort},
	rawAddrSize:     {"raw_addr size", ErrLength},
	cqDataShort:     {"cq_data", ErrShort},
	rmaIOVCount:     {"rma_iov_count", ErrCount},
	rmaIOVShort:     {"rma_iov", ErrShort},
	readIOVCount:    {"read_iov_count", ErrCount},
	readIOVShort:    {"read_iov", ErrShort},
	extraInfoCount:  {"nextra_p3", ErrLength},
	extraInfoShort:  {"extra_info", ErrShort},
	handshakeShort:  {"optional field", ErrShort},
	peerErrorLength: {"length", ErrLength},
}

// parseErrors holds every ParseError there can be, 9 KiB in all.
var parseErrors = func() (all [256][numProblems]ParseError) {
	for t := range all {
		for p := range all[t] {
			all[t][p] = ParseError{Type: Type(t), problem: problem(p)}
		}
	}
	return all
}()

func fail(t Type, p problem) error { return &parseErrors[t][p] }
