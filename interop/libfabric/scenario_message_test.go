//go:build linux

package libfabric_test

import (
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/wire"
)

// scenario is something that two parties do. It is played in every environment that
// it is for, by each party in either role.
type scenario struct {
	name   string
	proves []string // rows of the matrix
	where  func(environment) bool
	// Packet types that the initiator and the other side must have sent, and that
	// neither may have.
	from, back, never []wire.Type
	gathers           bool   // the initiator of a read has its buffer in pieces
	only              string // the environment's
	since             release
	gaps              []gap
	play              func(*play)
}

// role is the initiator's side.
type role uint8

const (
	either role = iota
	libfabricBegins
	efactorBegins
)

// String names the role, as the matrix does.
func (r role) String() string {
	return [...]string{"either begins", "libfabric begins", "efactor begins"}[r]
}

// subprotocol is a way in which messages go.
type subprotocol struct {
	name  string // row of the matrix
	size  int
	where func(environment) bool
	types [2]wire.Type // untagged and tagged
	from  []wire.Type  // also sent
	back  []wire.Type  // by the receiver
	read  bool         // by the receiver's device, from registered memory
	level party.Level
}

func everywhere(environment) bool { return true }

func medium(e environment) bool     { return e.medium > 0 }
func reads(e environment) bool      { return e.longRead > 0 && !e.runt }
func runts(e environment) bool      { return e.runt }
func rdma(e environment) bool       { return e.rdma }
func emulated(e environment) bool   { return !e.write }
func readOnly(e environment) bool   { return e.rdma && !e.write }
func writes(e environment) bool     { return e.write }
func noRDMA(e environment) bool     { return !e.rdma }
func noMedium(e environment) bool   { return e.medium == 0 }
func readsOrNot(e environment) bool { return e.longRead > 0 }

// Subprotocols of messages, with a size at which both sides choose it.
var messageProtocols = []subprotocol{
	{name: "eager", size: 0, where: everywhere, types: [2]wire.Type{wire.TypeEagerMsgRTM, wire.TypeEagerTagRTM}},
	{name: "eager", size: 1, where: everywhere, types: [2]wire.Type{wire.TypeEagerMsgRTM, wire.TypeEagerTagRTM}},
	{name: "eager", size: 4000, where: everywhere, types: [2]wire.Type{wire.TypeEagerMsgRTM, wire.TypeEagerTagRTM}},
	{name: "medium", size: 20000, where: medium, types: [2]wire.Type{wire.TypeMediumMsgRTM, wire.TypeMediumTagRTM}},
	{name: "medium", size: 65536, where: medium, types: [2]wire.Type{wire.TypeMediumMsgRTM, wire.TypeMediumTagRTM}},
	{
		name: "long-CTS", size: 10000, where: noMedium, types: [2]wire.Type{wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM},
		from: []wire.Type{wire.TypeCTSData}, back: []wire.Type{wire.TypeCTS},
	},
	{
		name: "long-CTS", size: 70000, where: everywhere, types: [2]wire.Type{wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM},
		from: []wire.Type{wire.TypeCTSData}, back: []wire.Type{wire.TypeCTS},
	},
	{
		name: "long-CTS", size: 700000, where: noRDMA, types: [2]wire.Type{wire.TypeLongCTSMsgRTM, wire.TypeLongCTSTagRTM},
		from: []wire.Type{wire.TypeCTSData}, back: []wire.Type{wire.TypeCTS},
	},
	{
		name: "long-read", size: 100000, where: reads, types: [2]wire.Type{wire.TypeLongReadMsgRTM, wire.TypeLongReadTagRTM},
		back: []wire.Type{wire.TypeEOR}, read: true,
	},
	{
		name: "long-read", size: 3 << 20, where: reads, types: [2]wire.Type{wire.TypeLongReadMsgRTM, wire.TypeLongReadTagRTM},
		back: []wire.Type{wire.TypeEOR}, read: true,
	},
	{
		name: "runting read", size: 200001, where: runts, types: [2]wire.Type{wire.TypeRuntReadMsgRTM, wire.TypeRuntReadTagRTM},
		back: []wire.Type{wire.TypeEOR}, read: true,
	},
	{
		name: "DC eager", size: 3000, where: everywhere, types: [2]wire.Type{wire.TypeDCEagerMsgRTM, wire.TypeDCEagerTagRTM},
		back: []wire.Type{wire.TypeReceipt}, level: party.Delivered,
	},
	{
		name: "DC medium", size: 30000, where: medium, types: [2]wire.Type{wire.TypeDCMediumMsgRTM, wire.TypeDCMediumTagRTM},
		back: []wire.Type{wire.TypeReceipt}, level: party.Delivered,
	},
	{
		name: "DC long-CTS", size: 80000, where: everywhere,
		types: [2]wire.Type{wire.TypeDCLongCTSMsgRTM, wire.TypeDCLongCTSTagRTM},
		from:  []wire.Type{wire.TypeCTSData}, back: []wire.Type{wire.TypeCTS, wire.TypeReceipt}, level: party.Delivered,
	},
	{ // there is no DC long-read: EOR has the same meaning
		name: "long-read", size: 150000, where: readsOrNot, types: [2]wire.Type{wire.TypeLongReadMsgRTM, wire.TypeLongReadTagRTM},
		back: []wire.Type{wire.TypeEOR}, read: true, level: party.Delivered,
	},
}

// exchangeData is remote CQ data: 1.17 has room for 32 bits in tagged messages.
const exchangeData = 0x89abcdef

// variants are what is done with each subprotocol.
var variants = []struct {
	name, feature string
	is            func(subprotocol) bool
	play          func(*play, party.Op)
}{
	{"", "", anyWay, func(p *play, s party.Op) { p.exchange(s, party.Op{}) }},
	{"exact", "", anyWay, func(p *play, s party.Op) {
		p.exchange(s, party.Op{Size: max(s.Size, 1), Registered: true, Directed: true})
	}},
	{"data", "CQ data", anyWay, func(p *play, s party.Op) {
		s.HasData, s.Data = true, exchangeData
		p.exchange(s, party.Op{})
		p.unexpected(s, party.Op{})
	}},
	{"pieces", "pieces", anyWay, func(p *play, s party.Op) {
		s.Pieces = 3
		p.exchange(s, party.Op{})
		p.exchange(s, party.Op{Pieces: 2})
		s.Pieces = 1
		p.exchange(s, party.Op{Pieces: 3, Registered: true})
	}},
	{"registered", "registered buffers", anyWay, func(p *play, s party.Op) {
		s.Registered = true
		p.exchange(s, party.Op{Registered: true})
	}},
	{"unexpected", "unexpected messages", anyWay, func(p *play, s party.Op) {
		p.unexpected(s, party.Op{})
		p.unexpected(s, party.Op{Directed: true, Registered: true})
	}},
	{"truncated", "truncation", func(s subprotocol) bool { return s.size > 1 }, truncated},
	{"many", "", func(s subprotocol) bool { return s.size < 100000 }, many},
	{"inject", "inject", func(s subprotocol) bool { return s.name == "eager" && s.size <= 4000 }, func(p *play, s party.Op) {
		s.Inject = true
		p.exchange(s, party.Op{})
		s.HasData, s.Data = true, exchangeData
		p.exchange(s, party.Op{})
	}},
}

func anyWay(subprotocol) bool { return true }

// truncated has less room than the message needs; its sender does not notice.
func truncated(p *play, s party.Op) {
	const noRoom = 265 // FI_ETRUNC
	for _, room := range []int{s.Size - 1, s.Size / 3, 1} {
		for _, late := range []bool{false, true} {
			op := p.sending(s)
			r := p.receiving(op, party.Op{Size: room})
			var sent, got *party.Pending
			if late {
				sent = p.start(p.a, op)
				p.mark()
				got = p.start(p.b, r)
			} else {
				got = p.start(p.b, r)
				sent = p.start(p.a, op)
			}
			p.done(sent)
			out := p.fails(got, noRoom)
			require.Equal(p, op.Size-room, out.Lost, "bytes that had no room")
			require.NoError(p, out.Content.Whole(op.Seed, room))
		}
	}
}

// many are under way at once, and arrive in order.
func many(p *play, s party.Op) {
	const n = 12
	var sends, receives []*party.Pending
	var ops []party.Op
	for range n {
		op := p.sending(s)
		ops = append(ops, op)
		receives = append(receives, p.start(p.b, p.receiving(op, party.Op{})))
	}
	for _, op := range ops {
		sends = append(sends, p.start(p.a, op))
	}
	for i := range n {
		p.done(sends[i])
		p.received(ops[i], p.done(receives[i]))
	}
}

// messageScenarios are each subprotocol in each variant, untagged and tagged.
func messageScenarios() (all []scenario) {
	for _, s := range messageProtocols {
		for i, tagging := range []string{"msg", "tagged"} {
			for _, v := range variants {
				if !v.is(s) {
					continue
				}
				name := s.name + " " + tagging
				if v.name != "" {
					name += ", " + v.name
				}
				one := scenario{
					name: name + " " + bytesOf(s.size), proves: []string{s.name}, where: s.where,
					from: append(slices.Clone(s.from), s.types[i]), back: s.back,
					play: func(p *play) {
						v.play(p, party.Op{
							Size: s.size, Tagged: i == 1, Tag: 0x1122334455667788, Level: s.level, Registered: s.read,
						})
					},
				}
				if v.feature != "" {
					one.proves = append(one.proves, v.feature)
				}
				if s.read && v.name == "truncated" {
					one.gaps = []gap{{
						begins: libfabricBegins,
						why:    "libfabric fails when its device is to read a message into too small a buffer",
					}}
				}
				all = append(all, one)
			}
		}
	}
	return all
}
