//go:build linux

package libfabric_test

import (
	"testing"

	"github.com/efactor/efactor/interop/libfabric/party"
)

// sinceHeaderless is the first release with messages without headers. It sends them if it
// receives such itself, and takes nothing else then.
var sinceHeaderless = release{1, 22, 0}

// TestZeroCopyRecv: libfabric sends to an endpoint of ours that receives without headers. One
// that knows nothing of that, or has not asked for it, sends as ever, and so do we to it.
func TestZeroCopyRecv(t *testing.T) {
	need(t)
	for _, e := range []environment{settings[0], settings[0].shuffled(5), settings[1]} {
		e.zeroCopy = true
		t.Run(e.title(), func(t *testing.T) {
			w := newWorld(t, e)
			defer w.end(t)
			t.Run("to efactor", func(t *testing.T) {
				p := w.play(t, libfabricBegins)
				defer p.cancel()
				sizes := []int{0, 1, 100, 4096, 8000, 20_000, 300_000}
				if !lf().before(sinceHeaderless) {
					sizes = sizes[:5]
				}
				for i, size := range sizes {
					p.exchange(party.Op{Size: size, HasData: i%2 == 0, Data: 0xfedcba90}, party.Op{Registered: i%3 == 0})
				}
				// It waits for its receive here.
				s := p.sending(party.Op{Size: 300})
				sent := p.start(p.a, s)
				out := p.start(p.b, p.receiving(s, party.Op{}))
				p.done(sent)
				p.received(s, p.done(out))
			})
			t.Run("to libfabric", func(t *testing.T) {
				p := w.play(t, efactorBegins)
				defer p.cancel()
				for _, size := range []int{0, 100, 8000, 20_000, 300_000} {
					p.exchange(party.Op{Size: size, Tagged: true, Tag: 9}, party.Op{})
					p.exchange(party.Op{Size: size, HasData: true, Data: 0x1122334455667788}, party.Op{})
				}
			})
		})
	}
}
