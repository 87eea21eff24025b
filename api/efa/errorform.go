package efa

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/internal/errtext"
)

// formed gives the error of a call the form of this package's errors, see [OpError]: "efa", the
// operation, the cause. It is for defer, in calls that are not made for each message.
func formed(op string, err *error) {
	if *err != nil {
		*err = callError(op, *err)
	}
}

// callError is formed for an error that is not nil.
func callError(op string, err error) error {
	if inner := new(errtext.Error); errors.As(err, &inner) && inner.Op == op {
		return inner
	}
	return &errtext.Error{Package: "efa", Op: op, Err: err}
}

// opNames are what operations are called in errors.
var opNames = [...]string{
	ope.KindSend: "send", ope.KindRecv: "recv", ope.KindWrite: "write", ope.KindRead: "read",
	ope.KindAtomic: "atomic", ope.KindPeek: "peek", ope.KindClaim: "claim", ope.KindTake: "recv",
}

// opName is what an operation is called in errors.
func opName(k ope.Kind) string {
	if int(k) < len(opNames) && opNames[k] != "" {
		return opNames[k]
	}
	return "recv"
}

// The errors that a program meets again and again while nothing is wrong, so that they cost it
// no allocation, by the kind of the operation.
var errsAgain, errsNoMessage = func() (again, none [len(opNames)]error) {
	for k := range opNames {
		name := opName(ope.Kind(k))
		again[k] = &errtext.Error{Package: "efa", Op: name, Err: ErrAgain}
		none[k] = &errtext.Error{Package: "efa", Op: name, Err: ErrNoMessage}
	}
	return again, none
}()

// refused is the error of an operation that was not accepted, or whose caller's context has ended. One
// that is an operation's error already stays as it is. It is no [OpError], so that a program can tell an
// operation that has failed from one that was never begun.
func (e *Endpoint) refused(kind ope.Kind, to Addr, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrAgain):
		return errsAgain[kind]
	case errors.Is(err, ErrNoMessage):
		return errsNoMessage[kind]
	case errors.As(err, new(*OpError)), errors.As(err, new(*TooLongError)), errors.As(err, new(*errtext.Error)):
		return err
	}
	return &errtext.Error{Package: "efa", Op: opAt(opName(kind), to, e.av.Name(to)), Err: err}
}

// opAt is an operation and its peer, as errors have them.
func opAt(op string, p Addr, name string) string {
	switch {
	case p >= NoAddr:
		return op
	case name != "":
		return fmt.Sprintf("%s, peer %d (%s)", op, p, name)
	default:
		return fmt.Sprintf("%s, peer %d", op, p)
	}
}

// refusedOf is refused for a request of the application's.
func (e *Endpoint) refusedOf(r Request, err error) error {
	kind, to := r.target()
	return e.refused(kind, to, err)
}

func (r *SendReq) target() (ope.Kind, Addr)   { return ope.KindSend, r.To }
func (r *RecvReq) target() (ope.Kind, Addr)   { return ope.KindRecv, NoAddr }
func (r *WriteReq) target() (ope.Kind, Addr)  { return ope.KindWrite, r.To }
func (r *ReadReq) target() (ope.Kind, Addr)   { return ope.KindRead, r.From }
func (r *AtomicReq) target() (ope.Kind, Addr) { return ope.KindAtomic, r.To }

// peerOf is the peer of a request that has one.
func peerOf(req *ope.Request) Addr {
	if aimed(req) {
		return Addr(req.Peer)
	}
	return NoAddr
}

// peer is the one of the request that was refused, if it was made.
func (b *batch) peer() Addr { return peerOf(&b.req) }

var errNoQueue = fmt.Errorf("%w: the endpoint has no queue for the outcome", ErrNoCQ)
