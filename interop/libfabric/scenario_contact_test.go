//go:build linux

package libfabric_test

import (
	"github.com/efactor/efactor/interop/libfabric/party"
	"github.com/efactor/efactor/wire"
)

// contactScenarios are the first words of two endpoints; contact_test.go has more.
func contactScenarios() []scenario {
	shake := []wire.Type{wire.TypeHandshake}
	return []scenario{{
		name: "handshake", proves: []string{"handshake"}, where: everywhere, from: shake, back: shake,
		play: func(p *play) {
			p.w.reopen(p.T)
			p.w.introduce(p.T, p.ctx)
			again := p.w.play(p.T, p.begins)
			defer again.cancel()
			again.exchange(party.Op{Size: 100}, party.Op{})
			p.w.thereAndBack(p.T)
		},
	}}
}
