//go:build linux

package libfabric_test

import (
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// refusedScenarios are accesses to memory that the initiator may not have.
func refusedScenarios() []scenario {
	return []scenario{
		{
			name: "refused writes", proves: []string{"refused writes"}, where: emulated, play: refusedWrites,
			gaps: []gap{{begins: libfabricBegins, why: "libfabric crashes when it refuses one"}},
		},
		{name: "refused direct reads", proves: []string{"refused reads"}, where: rdma, play: func(p *play) { refusedByDevice(p, party.Read) }},
		{name: "refused direct writes", proves: []string{"refused writes"}, where: writes, play: func(p *play) { refusedByDevice(p, party.Write) }},
	}
}

// forbidden are memory that a may not have, of a region at at.
func forbidden(at party.Remote) map[string]party.Remote {
	wrongKey, beyond, before := at, at, at
	wrongKey.Key ^= 0x155
	beyond.Addr += at.Len - 100
	before.Addr -= 8
	return map[string]party.Remote{"wrong key": wrongKey, "beyond the region": beyond, "before the region": before}
}

// refusedWrites: a short write is refused without an answer, and later packets arrive.
func refusedWrites(p *play) {
	const size = 4096
	mem, _ := p.region(p.b, size, party.AccessRemoteWrite|party.AccessRemoteRead)
	readOnly, _ := p.region(p.b, size, party.AccessRemoteRead)
	places := forbidden(mem.Remote())
	places["read-only"] = readOnly.Remote()
	for name, at := range places {
		p.Log(name)
		p.done(p.start(p.a, party.Op{Kind: party.Write, Peer: p.toB, At: at, Size: 200, Seed: 1}))
		p.exchange(party.Op{Size: 100}, party.Op{})
	}
	for _, r := range []party.Region{mem, readOnly} {
		c, err := r.Check(p.ctx, 0, size)
		require.NoError(p, err)
		require.True(p, c.Untouched)
	}
	p.reach(party.Op{Kind: party.Write, Size: 200, Level: party.Delivered})
}

// refusedByDevice: the device refuses, and the initiator hears of it. libfabric's cache of
// registrations makes one of those that lie side by side, so that its keys are good for
// more than the application asked for.
func refusedByDevice(p *play, kind party.Kind) {
	mem, _ := p.region(p.b, 4096, map[party.Kind]party.Access{party.Read: party.AccessRemoteRead, party.Write: party.AccessRemoteWrite}[kind])
	places := forbidden(mem.Remote())
	if p.b != party.Party(p.w.node) {
		places = map[string]party.Remote{"wrong key": places["wrong key"]}
	}
	for name, at := range places {
		out := p.ended(p.start(p.a, party.Op{Kind: kind, Peer: p.toB, At: at, Size: 200, Registered: true}))
		require.NotZero(p, out.Errno, name)
		p.exchange(party.Op{Size: 100}, party.Op{})
	}
	p.reach(party.Op{Kind: kind, Size: 200, Registered: true})
}
