package script

import (
	"fmt"

	"github.com/efactor/efactor/actors/ope"
)

// AnySource is the peer of a receive that takes messages from all senders.
const AnySource = ^uint64(0)

// letters begin the names of operations.
var letters = map[ope.Kind]byte{
	ope.KindSend: 's', ope.KindRecv: 'r', ope.KindWrite: 'w', ope.KindRead: 'g', ope.KindAtomic: 'x',
	ope.KindPeek: 'p', ope.KindClaim: 'c', ope.KindTake: 't',
}

// Op is an operation that the test submitted.
type Op struct {
	Name string // a letter for the kind and a number: "s1", "r2"
	Req  ope.Request
	Seed int // of the data, sends alone
	Ends int // outcomes so far; exactly one is right

	pool bool // it was posted in the pool
}

// Outcome is a copy of an operation's result.
type Outcome struct {
	Op  *Op
	Res ope.Result
}

// Done implements ope.Sink.
func (r *Rig) Done(req *ope.Request, res *ope.Result) {
	op, ok := r.ops[req.Token]
	if !ok {
		panic(fmt.Sprintf("script: outcome of %+v, which the test did not submit", req))
	}
	if req.Flags&ope.Part != 0 {
		r.logPart(op, req, res)
		return
	}
	op.Ends++
	r.Outcomes = append(r.Outcomes, Outcome{Op: op, Res: *res})
	r.logOutcome(op, res)
	if r.OnDone != nil {
		r.OnDone(op)
	}
}

// Submit hands a request to the endpoint, filling in its identifier. It doesn't run
// the shard.
func (r *Rig) Submit(req ope.Request, seed int) *Op {
	op := r.newOp(req, seed)
	if r.EP.Ended() || !r.EP.Submit(&op.Req) {
		op.Ends++
		r.log("%s refused", op.Name)
	}
	return op
}

func (r *Rig) newOp(req ope.Request, seed int) *Op {
	r.nextID++
	op := &Op{Name: fmt.Sprintf("%c%d", letters[req.Kind], r.nextID), Req: req, Seed: seed}
	op.Req.ID, op.Req.Token, op.Req.Sink = r.nextID, r.nextID, r
	r.ops[r.nextID] = op
	return op
}

// NextSeed is the seed for the data of the next operation.
func (r *Rig) NextSeed() int { return int(r.nextID+1) % 251 }

// Send submits a send of n bytes of the pattern.
func (r *Rig) Send(to *Remote, n int, flags ope.Flags, tag, data uint64) *Op {
	seed := r.NextSeed()
	return r.Submit(ope.Request{
		Kind: ope.KindSend, Flags: flags, Peer: to.Handle, Tag: tag, Data: data, Buf: Pattern(n, seed),
	}, seed)
}

// Recv submits a receive of at most n bytes; from nil takes any source.
func (r *Rig) Recv(from *Remote, n int, flags ope.Flags, tag, ignore uint64) *Op {
	req := ope.Request{
		Kind: ope.KindRecv, Flags: flags, Peer: AnySource, Tag: tag, Ignore: ignore, Buf: make([]byte, n),
	}
	if from != nil {
		req.Peer = from.Handle
	}
	return r.Submit(req, 0)
}

// Cancel asks for an operation's end.
func (r *Rig) Cancel(op *Op) {
	req := ope.Request{Kind: ope.KindCancel, ID: op.Req.ID}
	if op.pool {
		r.Pool.Submit(&req)
		return
	}
	r.EP.Submit(&req)
}

// Op finds an operation by its name, nil if there is none.
func (r *Rig) Op(name string) *Op {
	for _, op := range r.ops {
		if op.Name == name {
			return op
		}
	}
	return nil
}

// Ends lists the operations that have not exactly one outcome.
func (r *Rig) Ends() (wrong []string) {
	for id := uint64(1); id <= r.nextID; id++ {
		if op := r.ops[id]; op.Ends != 1 {
			wrong = append(wrong, fmt.Sprintf("%s has %d outcomes", op.Name, op.Ends))
		}
	}
	return wrong
}

// data is the first n bytes of the operation's memory, as many as there are, when it ends.
func (o *Op) data(n int) []byte {
	b := make([]byte, o.Req.Len())
	o.Req.Gather(b)
	return b[:min(n, len(b))]
}
