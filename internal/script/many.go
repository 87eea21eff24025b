package script

import (
	"errors"
	"fmt"

	"github.com/efactor/efactor/actors/ope"
)

// Rooms is how many more messages of receives of many the rig has room for; negative: any
// number.
type Rooms int

// Room implements ope.Many.
func (r *Rig) Room() bool {
	if r.Rooms == 0 {
		return false
	}
	r.Rooms = max(r.Rooms-1, -1)
	return true
}

// MakeRoom says how many more messages there is room for, as the reader of a queue does.
func (r *Rig) MakeRoom(n Rooms) {
	r.Rooms = n
	r.EP.Submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: func() {}}})
}

// logPart writes down the outcome of one message of many.
func (r *Rig) logPart(op *Op, req *ope.Request, res *ope.Result) {
	if op.Ends > 0 {
		r.log("%s HAS A MESSAGE AFTER ITS END", op.Name)
	}
	var cut *ope.Truncated
	if res.Err != nil && !errors.As(res.Err, &cut) {
		r.log("%s at %d failed: %v", op.Name, req.Addr, res.Err)
		return
	}
	s := fmt.Sprintf("%s at %d len=%d from=%s", op.Name, req.Addr, res.N, r.NameOf(res.Peer))
	if op.Req.Flags&ope.Tagged != 0 {
		s += fmt.Sprintf(" tag=0x%x", res.Tag)
	}
	if cut != nil {
		s += fmt.Sprintf(" lost=%d", cut.Lost)
	}
	r.log("%s%s", s, contents(op.Req.Buf[req.Addr:][:res.N], 0))
}
