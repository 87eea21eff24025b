//go:build linux

package libfabric_test

import (
	"github.com/efactor/efactor/interop/libfabric/party"
)

// sizeScenarios are about sizes at which the subprotocol changes: the two sides
// need not choose the same, and each must accept the other's.
func sizeScenarios() []scenario {
	return []scenario{
		{name: "sizes about a packet", proves: []string{"sizes"}, where: everywhere, play: func(p *play) {
			p.sizes(party.Op{}, 8670, 8765)
			p.sizes(party.Op{Tagged: true, Tag: 9}, 8670, 8765)
		}},
		{name: "sizes about a packet, with data", proves: []string{"sizes"}, where: everywhere, play: func(p *play) {
			p.sizes(party.Op{HasData: true, Data: exchangeData}, 8690, 8765)
			p.sizes(party.Op{HasData: true, Data: exchangeData, Tagged: true}, 8690, 8765)
		}},
		{name: "sizes about a packet, delivered", proves: []string{"sizes"}, where: everywhere, play: func(p *play) {
			p.sizes(party.Op{Level: party.Delivered}, 8690, 8765)
			p.sizes(party.Op{Level: party.Delivered, Tagged: true}, 8690, 8765)
		}},
		{name: "sizes about two and three packets", proves: []string{"sizes"}, where: everywhere, play: func(p *play) {
			p.sizes(party.Op{}, 2*8730-20, 2*8740+20)
			p.sizes(party.Op{Tagged: true}, 3*8720, 3*8720+60)
		}},
		{name: "sizes about switch points", proves: []string{"sizes"}, where: everywhere, play: func(p *play) {
			for _, at := range []int{65536, 100000} {
				p.sizes(party.Op{}, at-2, at+2)
				p.sizes(party.Op{Registered: true}, at-2, at+2)
				p.sizes(party.Op{Tagged: true, Level: party.Delivered}, at-2, at+2)
			}
		}},
		{name: "windows", proves: []string{"sizes"}, where: noRDMA, play: func(p *play) {
			const segment = 8760 - 32
			for _, n := range []int{3 * segment, 32 * segment, 64 * segment} { // ours and libfabric's
				p.sizes(party.Op{}, n+8700, n+8760)
			}
		}},
		{name: "writes and reads about a packet", proves: []string{"sizes"}, where: everywhere, play: func(p *play) {
			for size := 8690; size <= 8765; size += 3 {
				p.reach(party.Op{Kind: party.Write, Size: size})
				p.reach(party.Op{Kind: party.Write, Size: size, Level: party.Delivered})
				p.reach(party.Op{Kind: party.Read, Size: size})
			}
			for size := 8730; size <= 8740; size++ {
				p.reach(party.Op{Kind: party.Read, Size: size})
			}
		}},
		{name: "long without registered memory", proves: []string{"sizes"}, where: everywhere, play: func(p *play) {
			for _, size := range []int{100001, 1 << 20, 5 << 20} {
				p.exchange(party.Op{Size: size}, party.Op{})
				p.exchange(party.Op{Size: size, Tagged: true}, party.Op{Registered: true})
				p.reach(party.Op{Kind: party.Write, Size: size})
				p.reach(party.Op{Kind: party.Read, Size: size})
			}
		}},
		{name: "16 MiB", proves: []string{"sizes"}, where: everywhere, play: func(p *play) {
			p.exchange(party.Op{Size: 16 << 20, Registered: true}, party.Op{Registered: true})
		}},
		{
			name: "pieces of remote memory", proves: []string{"pieces"}, where: everywhere,
			play: func(p *play) {
				for _, size := range []int{1000, 20000, 200000} {
					for _, l := range []party.Level{party.Default, party.Delivered} {
						p.reach(party.Op{Kind: party.Write, Size: size, RemotePieces: 2, Level: l})
					}
					p.reach(party.Op{Kind: party.Read, Size: size, RemotePieces: 3})
				}
			},
		},
	}
}

// sizes exchanges messages of each size from least to most.
func (p *play) sizes(op party.Op, least, most int) {
	p.Helper()
	for op.Size = least; op.Size <= most; op.Size++ {
		p.exchange(op, party.Op{Registered: op.Registered})
	}
}
