package endpoint_test

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/internal/script"
)

// operation submits what an application asks for.
func (s *scenario) operation(d *datadriven.TestData) bool {
	switch d.Cmd {
	case "send":
		// Submits sends, from plain memory or from a region.
		//
		//	send a len=100
		//	send a len=100 tag=5 data=0x77 count=3
		//	send a len=100 in=m off=50 dc
		s.submit(d, ope.KindSend, s.remote(d).Handle)
	case "recv":
		// Posts receives, from anybody unless told otherwise.
		//
		//	recv len=100
		//	recv from=a len=100 tag=4 ignore=1 count=2
		//	recv len=100 in=m off=50
		//
		// multi takes many messages, until less than least bytes are left; sized claims
		// what is longer or not whole.
		//
		//	recv len=1000 multi least=200 quiet_parts
		//	recv len=100 sized
		//
		// pool posts in the endpoint's pool.
		//
		//	recv len=100 pool
		s.submit(d, ope.KindRecv, s.source(d))
	case "room":
		// Makes room for the outcomes of N more messages of receives of many.
		//
		//	room 2
		n, err := strconv.Atoi(d.CmdArgs[0].Key)
		require.NoError(s.t, err, d.Pos)
		s.rig.MakeRoom(script.Rooms(n))
	case "write", "read":
		// Accesses the memory of a peer, which memory has shared.
		//
		//	write a to=buf+0:100 dc data=5
		//	read a to=buf+0:100 in=m off=50
		kind := ope.KindWrite
		if d.Cmd == "read" {
			kind = ope.KindRead
		}
		s.submit(d, kind, s.remote(d).Handle)
	case "atomic":
		// An atomic; form is write, fetch or compare.
		//
		//	atomic a to=buf+0:8 type=INT32 op=SUM value=(1,2) dc
		//	atomic a to=buf+0:4 type=INT32 op=CSWAP form=compare value=5 compare=4
		s.submit(d, ope.KindAtomic, s.remote(d).Handle)
	case "peek", "claim":
		// Asks what a receive would get, and takes it out of matching.
		//
		//	peek tag=4
		//	claim from=a wait
		//	peek discard
		kind := ope.KindPeek
		if d.Cmd == "claim" {
			kind = ope.KindClaim
		}
		s.submit(d, kind, s.source(d))
	case "take":
		// Receives, or throws away, what was claimed.
		//
		//	take c2 len=100
		//	take c2 discard
		s.submit(d, ope.KindTake, script.AnySource)
	case "cancel":
		// Cancels an operation.
		//
		//	cancel r2
		s.rig.Cancel(s.rig.Op(d.CmdArgs[0].Key))
	default:
		return false
	}
	return true
}

func (s *scenario) submit(d *datadriven.TestData, kind ope.Kind, peer uint64) {
	for range max(num(d, "count"), 1) {
		req := ope.Request{
			Kind: kind, Flags: flags(d), Peer: peer, Tag: uint64(num(d, "tag")), Ignore: uint64(num(d, "ignore")),
			Data: uint64(num(d, "data")),
		}
		if s.rig.EP.Settings().Order != 0 && kind != ope.KindRecv {
			req.Flags |= ope.Ordered
		}
		n := num(d, "len")
		if a, ok := d.Arg("to"); ok {
			e, err := s.rig.Place(a.Vals[0])
			require.NoError(s.t, err, d.Pos)
			req.Addr, req.Key, n = e.Addr, e.Key, int(e.Len)
			if len(a.Vals) > 1 {
				n = s.remotePieces(&req, a.Vals)
			}
		}
		switch kind {
		case ope.KindAtomic:
			s.operands(d, &req, n)
		case ope.KindTake:
			req.Data = s.rig.Op(d.CmdArgs[0].Key).Req.ID
			req.Buf = s.buffer(d, n)
		case ope.KindSend, ope.KindWrite:
			req.Buf = s.buffer(d, n)
			script.Fill(req.Buf, 0, s.rig.NextSeed())
			s.localPieces(d, &req)
		case ope.KindRecv, ope.KindRead:
			req.Buf = s.buffer(d, n)
			s.localPieces(d, &req)
			req.Data = uint64(max(num(d, "data"), num(d, "least")))
		}
		if d.HasArg("pool") {
			s.rig.SubmitPool(req)
			continue
		}
		s.rig.Submit(req, s.rig.NextSeed())
	}
}

// buffer is n bytes of the region that in names, or of plain memory.
func (s *scenario) buffer(d *datadriven.TestData, n int) []byte {
	a, ok := d.Arg("in")
	if !ok {
		return make([]byte, n)
	}
	m := s.rig.Region(a.Vals[0])
	require.NotNil(s.t, m, "%s: no region %s", d.Pos, a.Vals[0])
	return m.Bytes()[num(d, "off"):][:n]
}

// operands fills in what an atomic takes and brings.
func (s *scenario) operands(d *datadriven.TestData, req *ope.Request, n int) {
	word := func(name string) string {
		a, _ := d.Arg(name)
		return strings.Join(a.Vals, ",")
	}
	of, err := script.Datatype(word("type"))
	require.NoError(s.t, err, d.Pos)
	op, err := script.AtomicOp(word("op"))
	require.NoError(s.t, err, d.Pos)
	req.Type, req.Op = uint8(of), uint8(op)
	req.Buf, err = script.ParseValues(of, word("value"))
	require.NoError(s.t, err, d.Pos)
	req.Form = map[string]atomics.Form{"fetch": ope.AtomicFetch, "compare": ope.AtomicCompare}[word("form")]
	if req.Form != ope.AtomicWrite {
		req.More = &ope.More{Result: make([]byte, n)}
		req.More.Compare, err = script.ParseValues(of, word("compare"))
		require.NoError(s.t, err, d.Pos)
	}
}

func (s *scenario) source(d *datadriven.TestData) uint64 {
	if a, ok := d.Arg("from"); ok {
		return s.rig.Remote(a.Vals[0]).Handle
	}
	return script.AnySource
}

func flags(d *datadriven.TestData) ope.Flags {
	var f ope.Flags
	for name, flag := range map[string]ope.Flags{
		"tag": ope.Tagged, "data": ope.HasData, "dc": ope.Deliver, "inject": ope.Inject, "discard": ope.Discard,
		"fence": ope.Fence, "wait": ope.Await,
		"multi": ope.Multi, "quiet_parts": ope.QuietParts, "sized": ope.Sized,
	} {
		if d.HasArg(name) {
			f |= flag
		}
	}
	return f
}
