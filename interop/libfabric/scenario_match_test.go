//go:build linux

package libfabric_test

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// Numbers of libfabric.
const (
	errCanceled  = 125 // FI_ECANCELED
	errNoMessage = 42  // FI_ENOMSG
)

// matchScenarios are about which receive takes which message.
func matchScenarios() []scenario {
	return []scenario{
		{name: "ignored bits of tags", proves: []string{"ignore masks"}, where: everywhere, play: ignoring},
		{name: "ignored bits, unexpected", proves: []string{"ignore masks"}, where: everywhere, play: ignoringLate},
		{name: "tagged apart from untagged", proves: []string{"matching"}, where: everywhere, play: apart},
		{name: "unexpected in another order", proves: []string{"matching"}, where: everywhere, play: otherOrder},
		{name: "cancel", proves: []string{"cancel"}, where: everywhere, play: canceled},
		{name: "levels", proves: []string{"completion levels"}, where: everywhere, play: levels},
		{name: "counters", proves: []string{"counters"}, where: everywhere, play: counters},
		{name: "64 bits of data", proves: []string{"CQ data"}, where: everywhere, play: wideData},
		{name: "peek", proves: []string{"peek"}, where: everywhere, play: peeked},
		{name: "claim", proves: []string{"claim"}, where: everywhere, play: claimed},
		{name: "discard", proves: []string{"discard"}, where: everywhere, play: func(p *play) {
			p.discarded(party.Default, 100)
			if p.env.medium > 0 {
				p.discarded(party.Default, 20000)
			}
		}},
		{
			name: "discard, awaited", proves: []string{"discard"}, where: everywhere,
			gaps: []gap{{
				begins: libfabricBegins, since: since2,
				why: "libfabric 2.1 sends neither RECEIPT nor CTS for a message that it discards, and its sender waits",
			}},
			play: func(p *play) {
				p.discarded(party.Default, 70000)
				p.discarded(party.Delivered, 100, 30000)
			},
		},
	}
}

// tagged is a message with a tag.
func tagged(tag uint64, size int) party.Op { return party.Op{Tagged: true, Tag: tag, Size: size} }

// ignoring: the oldest receive whose bits agree takes the message.
func ignoring(p *play) {
	masked := func(tag, ignore uint64) *party.Pending {
		return p.start(p.b, party.Op{Kind: party.Recv, Tagged: true, Tag: tag, Ignore: ignore, Size: 200})
	}
	exact := masked(0xabcd0001, 0)
	low := masked(0xabcd0000, 0xffff)
	all := masked(0, ^uint64(0))
	for _, c := range []struct {
		tag  uint64
		into *party.Pending
	}{{0xabcd0002, low}, {0xabcd0001, exact}, {1 << 63, all}} {
		s := p.sending(tagged(c.tag, 100))
		p.done(p.start(p.a, s))
		p.received(s, p.done(c.into))
	}
}

func ignoringLate(p *play) {
	var sends []party.Op
	for _, tag := range []uint64{0x10, 0x21, 0x12} {
		s := p.sending(tagged(tag, 300))
		p.done(p.start(p.a, s))
		sends = append(sends, s)
	}
	p.mark()
	take := func(tag, ignore uint64, s party.Op) {
		got := p.start(p.b, party.Op{Kind: party.Recv, Tagged: true, Tag: tag, Ignore: ignore, Size: 400})
		p.received(s, p.done(got))
	}
	take(0x20, 0x0f, sends[1])
	take(0, ^uint64(0), sends[0])
	take(0x10, 0x0f, sends[2])
}

// apart: neither kind of receive takes the other's messages.
func apart(p *play) {
	t, u := p.sending(tagged(0, 50)), p.sending(party.Op{Size: 60})
	untagged := p.start(p.b, p.receiving(u, party.Op{}))
	withTag := p.start(p.b, party.Op{Kind: party.Recv, Tagged: true, Ignore: ^uint64(0), Size: 100})
	p.done(p.start(p.a, t))
	p.done(p.start(p.a, u))
	p.received(u, p.done(untagged))
	p.received(t, p.done(withTag))
}

// otherOrder receives what waits by its tag, last first.
func otherOrder(p *play) {
	var sends []party.Op
	var started []*party.Pending
	for tag, size := range []int{10, 9000, 0, 70000, 100} {
		s := p.sending(tagged(uint64(tag), size))
		started = append(started, p.start(p.a, s))
		sends = append(sends, s)
	}
	p.mark()
	for i := len(sends) - 1; i >= 0; i-- {
		got := p.start(p.b, p.receiving(sends[i], party.Op{}))
		p.received(sends[i], p.done(got))
		p.done(started[i])
	}
}

// canceled receives take no messages.
func canceled(p *play) {
	for _, tag := range []bool{false, true} {
		s := p.sending(party.Op{Size: 500, Tagged: tag, Tag: 77})
		dropped := p.start(p.b, p.receiving(s, party.Op{}))
		kept := p.start(p.b, p.receiving(s, party.Op{}))
		require.NoError(p, p.b.Cancel(p.ctx, dropped))
		p.fails(dropped, errCanceled)
		p.done(p.start(p.a, s))
		p.received(s, p.done(kept))
	}
}

// wideData: libfabric 1.17 sends the low half alone, but with fi_sendmsg, which pieces
// have it called for, and where the data goes to memory.
func wideData(p *play) {
	const wide = 0x0badcafe12345678
	cuts := (p.begins == libfabricBegins || p.env.reference) && lf().before(since2)
	for _, size := range []int{10, 20000, 70000} {
		for _, s := range []party.Op{{}, {Tagged: true, Tag: 8}, {Pieces: 2}} {
			s.Size, s.HasData, s.Data = size, true, wide
			s = p.sending(s)
			got := p.start(p.b, p.receiving(s, party.Op{}))
			p.done(p.start(p.a, s))
			if cuts && s.Pieces == 0 {
				s.Data = uint64(uint32(s.Data))
			}
			p.received(s, p.done(got))
		}
	}
	data := uint64(wide)
	if p.env.write && p.begins == libfabricBegins {
		data = uint64(uint32(data)) // a card has room for 32 bits
	}
	p.reach(party.Op{Kind: party.Write, Size: 100, HasData: true, Data: data})
}

func levels(p *play) {
	for _, l := range []party.Level{party.Injected, party.Transmitted, party.Delivered, party.Matched} {
		for _, size := range []int{0, 100, 20000} {
			p.exchange(party.Op{Size: size, Level: l}, party.Op{})
			p.exchange(party.Op{Size: size, Level: l, Tagged: true, Tag: 4}, party.Op{})
		}
	}
	p.exchange(party.Op{Size: 100, Level: party.Transmitted, Inject: true}, party.Op{})
}

// counters count what ends, injected or not.
func counters(p *play) {
	before := [2]party.Counters{}
	for i, x := range []party.Party{p.a, p.b} {
		var err error
		before[i], err = x.Counters(p.ctx)
		require.NoError(p, err)
	}
	mem, _ := p.region(p.b, 200, party.AccessRemoteRead|party.AccessRemoteWrite)
	for range 3 {
		p.exchange(party.Op{Size: 10}, party.Op{})
		p.exchange(party.Op{Size: 10, Inject: true}, party.Op{})
	}
	at := mem.Remote()
	p.done(p.start(p.a, party.Op{Kind: party.Write, Peer: p.toB, At: at, Size: 20, Level: party.Delivered}))
	p.done(p.start(p.a, party.Op{Kind: party.Read, Peer: p.toB, At: at, Size: 20}))
	data := party.Op{Kind: party.Write, Peer: p.toB, At: at, Size: 20, HasData: true, Data: 5}
	p.done(p.start(p.a, data))
	p.noticed(data)
	for {
		a, err := p.a.Counters(p.ctx)
		require.NoError(p, err)
		b, err := p.b.Counters(p.ctx)
		require.NoError(p, err)
		got := [...]uint64{
			a.Send - before[0].Send, b.Recv - before[1].Recv, a.Write - before[0].Write, a.Read - before[0].Read,
			b.RemoteWrite - before[1].RemoteWrite, a.Failed - before[0].Failed, b.Failed - before[1].Failed,
		}
		if got == [...]uint64{6, 6, 2, 1, 1, 0, 0} {
			return
		}
		require.NoError(p, p.ctx.Err(), "sends, receives, writes, reads, remote writes, failures: %v", got)
	}
}

// look tries a peek, a claim or a discard of a tagged message that waits.
func (p *play) look(k party.Kind, tag uint64) *party.Pending {
	return p.start(p.b, party.Op{Kind: k, Tagged: true, Tag: tag})
}

// waiting sends a message that waits at b without a receive.
func (p *play) waiting(size int, tag uint64, l party.Level) (party.Op, *party.Pending) {
	s := tagged(tag, size)
	s.Level, s.HasData, s.Data = l, true, exchangeData
	s = p.sending(s)
	started := p.start(p.a, s)
	p.mark()
	return s, started
}

var peekSizes = []int{100, 20000, 70000}

func peeked(p *play) {
	p.fails(p.look(party.Peek, 5), errNoMessage)
	for _, size := range peekSizes {
		s, started := p.waiting(size, 5, party.Default)
		for range 2 {
			out := p.done(p.look(party.Peek, 5))
			require.Equal(p, s.Size, out.N)
			require.Equal(p, s.Tag, out.Tag)
		}
		p.fails(p.look(party.Peek, 6), errNoMessage)
		p.late = true
		p.received(s, p.done(p.start(p.b, p.receiving(s, party.Op{}))))
		p.late = false
		p.done(started)
		p.fails(p.look(party.Peek, 5), errNoMessage)
	}
}

func claimed(p *play) {
	p.fails(p.look(party.Claim, 5), errNoMessage)
	for _, size := range peekSizes {
		s, started := p.waiting(size, 5, party.Default)
		claim := p.look(party.Claim, 5)
		out := p.done(claim)
		require.Equal(p, s.Size, out.N)
		p.fails(p.look(party.Peek, 5), errNoMessage) // others do not see it
		take := p.start(p.b, party.Op{Kind: party.Take, Of: claim, Tagged: true, Tag: 5, Size: s.Size + 1})
		p.late = true
		p.received(s, p.done(take))
		p.late = false
		p.done(started)
	}
}

func (p *play) discarded(l party.Level, sizes ...int) {
	for _, size := range sizes {
		s, started := p.waiting(size, 5, l)
		out := p.done(p.look(party.Discard, 5))
		require.Equal(p, s.Tag, out.Tag)
		p.done(started)
		p.fails(p.look(party.Peek, 5), errNoMessage)
	}
}
