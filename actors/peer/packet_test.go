package peer

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// TestFreeClears: a packet from the pool says nothing of the one that it was before.
func TestFreeClears(t *testing.T) {
	env := &Env{Pool: new(Pool)}
	env.Config.PeerMemory, env.Config.TotalMemory = 1000, 1000
	link := &Link{env: env}
	p := env.Pool.Get(nil, link)
	fresh := *p
	fresh.Next, fresh.Link = nil, nil
	h := reflect.ValueOf(&p.Header).Elem()
	for _, field := range reflect.VisibleFields(h.Type()) {
		switch f := h.FieldByIndex(field.Index); f.Kind() {
		case reflect.Struct: // its fields are visible, too
		case reflect.Bool:
			f.SetBool(true)
		default:
			f.SetUint(uint64(wire.TypeCTS))
		}
	}
	p.own = env.Pool.Block(100)
	p.Payload, p.Aborted, p.charged = p.own[:7], true, 100
	p.Ext, p.Multi = env.Pool.getExt(), env.Pool.getMulti()
	p.Multi.packets = 1
	link.Hold(100)
	p.Free()
	require.Zero(t, link.Held())
	require.Same(t, p, env.Pool.Get(nil, nil))
	require.Equal(t, fresh, *p)
}

// BenchmarkPacket is what each eager packet costs until the peer knows what it is, and
// afterwards: opened, read and given back.
func BenchmarkPacket(b *testing.B) {
	p := &Peer{env: &Env{Pool: new(Pool)}, link: new(Link)}
	eager := (&wire.EagerRTM{Tagged: true, Tag: 1, MsgID: 9}).Append(nil)
	r := new(device.RecvPkt)
	b.ReportAllocs()
	for b.Loop() {
		if err := r.View.Open(eager); err != nil {
			b.Fatal(err)
		}
		pkt := p.read(r)
		pkt.slot = nil // there is no queue
		pkt.Free()
	}
}
