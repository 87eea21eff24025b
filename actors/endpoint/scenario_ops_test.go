package endpoint_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/atomics"
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/telemetry"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/internal/spans"
	"github.com/efactor/efactor/runtime/clock"
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

// remotePieces has a request name several pieces of a peer's memory, and returns how many
// bytes they have.
//
//	write a to=(buf+0:100,far+50:10)
func (s *scenario) remotePieces(req *ope.Request, places []string) (n int) {
	l := req.GetIOV()
	for _, p := range places {
		e, err := s.rig.Place(p)
		require.NoError(s.t, err)
		l.Remote = append(l.Remote, e)
		n += int(e.Len)
	}
	return n
}

// localPieces has a request take its memory in several pieces, of which those with a region's
// name lie there, and others in plain memory; what it sends is in them.
//
//	send a len=300 bufs=(m+0:100,+150,m+500:50)
func (s *scenario) localPieces(d *datadriven.TestData, req *ope.Request) {
	a, ok := d.Arg("bufs")
	if !ok {
		return
	}
	data, whole := req.Buf, len(req.Buf)
	l := req.GetIOV()
	req.Buf, req.Flags = nil, req.Flags|ope.HasIOV
	for _, v := range a.Vals {
		name, rest, _ := strings.Cut(v, "+")
		var p []byte
		if name == "" {
			p = make([]byte, s.number(rest))
		} else {
			off, n, _ := strings.Cut(rest, ":")
			p = s.rig.Region(name).Bytes()[s.number(off):][:s.number(n)]
		}
		if req.Kind != ope.KindRecv && req.Kind != ope.KindRead {
			data = data[copy(p, data):]
		}
		l.AddLocal(p)
	}
	if req.Kind != ope.KindRecv {
		require.Equal(s.t, whole, req.Len(), "%s: len is another", d.Pos)
	}
}

func (s *scenario) number(v string) int {
	n, err := strconv.Atoi(v)
	require.NoError(s.t, err)
	return n
}

// memory carries out a command about memory; false: it is another one.
func (s *scenario) memory(d *datadriven.TestData) (out string, ok bool) {
	switch d.Cmd {
	case "region":
		// Registers memory here for send, recv, read (by peers) and write. local:
		// the device carries no RDMA of others to it.
		//
		//	region m len=1000 for=(send,read) seed=7
		var a script.Rights
		uses, _ := d.Arg("for")
		for _, u := range uses.Vals {
			*map[string]*bool{"send": &a.Send, "recv": &a.Recv, "read": &a.RemoteRead, "write": &a.RemoteWrite}[u] = true
		}
		m, err := s.rig.Register(d.CmdArgs[0].Key, num(d, "len"), a, d.HasArg("local"))
		require.NoError(s.t, err, d.Pos)
		if d.HasArg("seed") {
			script.Fill(m.Bytes(), 0, num(d, "seed"))
		}
	case "export":
		// Gives a part of memory here a key of its own; for names what peers may do.
		//
		//	export m key=7 off=100 len=50 for=(read,write)
		m := s.rig.Region(d.CmdArgs[0].Key)
		part := m.Bytes()[num(d, "off"):][:num(d, "len")]
		var a mr.Access
		uses, _ := d.Arg("for")
		for _, u := range uses.Vals {
			a |= map[string]mr.Access{"read": device.RemoteRead, "write": device.RemoteWrite}[u]
		}
		require.NoError(s.t, s.rig.Regions.Export(m.Region, part, uint64(num(d, "key")), a), d.Pos)
	case "unexport":
		// Takes it back.
		//
		//	unexport m key=7
		require.True(s.t, s.rig.Regions.Unexport(s.rig.Region(d.CmdArgs[0].Key).Region, uint64(num(d, "key"))), d.Pos)
	case "memory":
		// Gives a peer memory that others may access.
		//
		//	memory a buf len=1000 seed=7
		m := s.rig.Share(s.remote(d), d.CmdArgs[1].Key, num(d, "len"), d.HasArg("local"))
		if d.HasArg("seed") {
			script.Fill(m.Bytes, 0, num(d, "seed"))
		}
	case "unmemory":
		// Takes it away: RDMA to it ends with status 7.
		//
		//	unmemory buf
		s.rig.Shared(d.CmdArgs[0].Key).Key = 0
	case "fill":
		// Fills memory, with the part of a message that begins at at, or with
		// numbers.
		//
		//	fill m off=100 len=50 seed=3 at=100
		//	fill m type=INT32 value=(1,2,-3)
		mem := s.bytes(d)[num(d, "off"):]
		if d.HasArg("type") {
			t, err := script.Datatype(s.word(d, "type"))
			require.NoError(s.t, err, d.Pos)
			b, err := script.ParseValues(t, s.word(d, "value"))
			require.NoError(s.t, err, d.Pos)
			copy(mem, b)
			break
		}
		script.Fill(mem[:num(d, "len")], num(d, "at"), num(d, "seed"))
	case "show":
		// Shows memory: stretches of the pattern and of zeros, or numbers.
		//
		//	show m
		//	show m type=INT32 len=12
		mem := s.bytes(d)
		if d.HasArg("len") {
			mem = mem[num(d, "off"):][:num(d, "len")]
		}
		if d.HasArg("type") {
			t, err := script.Datatype(s.word(d, "type"))
			require.NoError(s.t, err, d.Pos)
			return script.Values(t, mem), true
		}
		return stretches(mem), true
	case "revoke":
		// Closes a region.
		//
		//	revoke m
		s.rig.CloseRegion(s.rig.Region(d.CmdArgs[0].Key))
	case "reads", "writes":
		// The device of a peer reads memory here, or writes the pattern to it, with
		// immediate data if imm is given; an access that is not allowed is refused.
		//
		//	reads a m+0:100
		//	writes a m+0:100 seed=5 imm=7
		return s.access(d), true
	default:
		return "", false
	}
	s.rig.Run()
	return "", true
}

func (s *scenario) word(d *datadriven.TestData, name string) string {
	a, _ := d.Arg(name)
	return strings.Join(a.Vals, ",")
}

// bytes is the memory that the first argument names.
func (s *scenario) bytes(d *datadriven.TestData) []byte {
	name := d.CmdArgs[0].Key
	if m := s.rig.Region(name); m != nil {
		return m.Bytes()
	}
	m := s.rig.Shared(name)
	require.NotNil(s.t, m, "%s: no memory %s", d.Pos, name)
	return m.Bytes
}

// access is RDMA of a peer's.
func (s *scenario) access(d *datadriven.TestData) string {
	x := s.remote(d)
	e, err := s.rig.Place(d.CmdArgs[1].Key)
	require.NoError(s.t, err, d.Pos)
	right := device.RemoteRead
	if d.Cmd == "writes" {
		right = device.RemoteWrite
	}
	mem := s.rig.QP.Reach(mr.DeviceKey(e.Key), e.Addr, int(e.Len), right)
	if mem == nil {
		s.rig.QP.RefuseRDMA(x.Addr.GID(), x.Addr.QPN(), mr.DeviceKey(e.Key))
		s.rig.Run()
		return "refused"
	}
	if d.Cmd == "reads" {
		return stretches(mem)
	}
	script.Fill(mem, 0, num(d, "seed"))
	if d.HasArg("imm") && !s.rig.QP.Written(x.Addr.GID(), x.Addr.QPN(), len(mem), uint32(num(d, "imm"))) {
		return "no receive posted"
	}
	s.rig.Run()
	return ""
}

// stretches describes memory: from:to and the seed of the pattern, or zeros.
func stretches(b []byte) string {
	var out []string
	for i := 0; i < len(b); {
		j, zero := i, i
		for zero < len(b) && b[zero] == 0 {
			zero++
		}
		for j < len(b) && int(b[j]) == (int(b[i])+j-i)%251 {
			j++
		}
		if zero > j || zero == j && zero == i+1 {
			out = append(out, fmt.Sprintf("%d:%d zero", i, zero))
			i = zero
			continue
		}
		seed := ((int(b[i])-i)%251 + 251) % 251
		out = append(out, strconv.Itoa(i)+":"+strconv.Itoa(j)+" seed="+strconv.Itoa(seed))
		i = j
	}
	return strings.Join(out, "\n")
}

// target has the log say what peers do to memory here, where open is asked for that:
//
//	counts   the data of writes that are counted instead of reported
//	served   accesses that the endpoint has carried out
func (s *scenario) target(d *datadriven.TestData, cfg *endpoint.Config) {
	if a, ok := d.Arg("counts"); ok {
		var values []uint64
		for _, v := range a.Vals {
			n, err := strconv.ParseUint(v, 0, 64)
			require.NoError(s.t, err, d.Pos)
			values = append(values, n)
		}
		cfg.OnCounted = func(n int, data uint64) bool {
			found := slices.Contains(values, data)
			if found {
				s.note("counted len=%d data=0x%x", n, data)
			}
			return found
		}
	}
	if d.HasArg("served") {
		cfg.OnServed = func(x *endpoint.Served) {
			kind := map[bool]string{false: "write", true: "read"}[x.Access == device.RemoteRead]
			more := map[bool]string{true: ", which has data"}[x.HasData]
			s.note("served a %s of %d bytes in %d regions by %s%s", kind, x.N, len(x.Regions), s.rig.NameOf(x.Handle), more)
		}
	}
}

// note adds a line to the log.
func (s *scenario) note(format string, args ...any) {
	s.rig.Log = append(s.rig.Log, fmt.Sprintf(format, args...))
}

// observed is what becomes of the trail of the endpoint under test.
type observed struct {
	log  spans.Log
	tele *telemetry.Collector
}

// observe gives the endpoint that is about to be opened a trail.
func (s *scenario) observe() *trail.Log {
	var err error
	s.spans.tele, err = telemetry.New(telemetry.Config{TracerProvider: s.spans.log.Provider(), Inline: true})
	require.NoError(s.t, err)
	now := func() clock.Time {
		if s.rig == nil {
			return 0 // it is being opened
		}
		return s.rig.Shard.Now()
	}
	return s.spans.tele.Open(telemetry.Endpoint{Now: now}).Log()
}

// ended gives the spans that have ended since the last time, with the rig's names for
// connids.
func (s *scenario) ended() string {
	s.rig.Run()
	s.spans.tele.Drain()
	list := s.spans.log.Take()
	require.Empty(s.t, spans.Check(list))
	out := spans.Text(list, func(connid string) string { return connid })
	for _, x := range s.rig.Remotes() {
		out = strings.ReplaceAll(out, fmt.Sprintf("%08x", x.Addr.ConnID()), x.Name)
	}
	return out
}

// panic sets up a panic.
func (s *scenario) panic(where string) {
	s.panics++
	switch where {
	case "peer":
		s.rig.EP.PoisonPeers()
	case "endpoint":
		s.unfinished = true
		s.rig.EP.Submit(&ope.Request{Kind: ope.KindControl, More: &ope.More{Run: func() { panic("a bug") }}})
	default:
		panicsIn(s.rig, s.rig.Op(where))
	}
}
