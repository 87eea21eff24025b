package remote

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestTurns: the frames of a session, also of one that is asked for, are taken before many older ones of others,
// whole and in their order.
func TestTurns(t *testing.T) {
	f, err := sim.New(sim.Config{InOrder: true})
	require.NoError(t, err)
	open := func() *efa.Endpoint {
		d, err := f.OpenDevice(sim.DeviceConfig{})
		require.NoError(t, err)
		ep, err := efa.OpenEndpoint(t.Context(), efa.Setup{Fabric: efa.Config{Device: d}})
		require.NoError(t, err)
		t.Cleanup(func() {
			require.NoError(t, ep.Close())
			require.NoError(t, d.Close())
		})
		return ep
	}
	here, foe, there := open(), open(), open()
	send := func(ep *efa.Endpoint, tag uint64, frame []byte) {
		to, err := ep.AddressVector().Insert(here.Address())
		require.NoError(t, err)
		require.NoError(t, ep.SendTag(t.Context(), to, tag, frame))
	}
	r := &Remote{ep: here, ctx: t.Context()}
	r.cfg.MaxAddresses = 2
	r.turns.buf = make([]byte, here.Domain().Limits().MTU)
	r.names.init(r, false)
	at, err := here.AddressVector().Insert(there.Address())
	require.NoError(t, err)
	n, l := r.names.name1("there"), r.names.newLink("there")
	require.NoError(t, r.names.reach(l, at))
	r.names.join(n, l)
	t.Cleanup(func() {
		l.drop(nil)
		r.served.Wait()
	})

	const others, frames, long = 3 * everyFrames, 3, 20_000
	for range others {
		send(foe, tagFrames, []byte{99})
	}
	for i := range byte(frames) {
		send(there, tagFrames, []byte{i})
	}
	send(there, tagFrames, make([]byte, long))
	for _, ep := range []*efa.Endpoint{foe, there} { // all that was sent before has arrived
		send(ep, tagHello, nil)
		_, err := here.RecvTag(t.Context(), efa.Match{Tag: tagHello}, nil)
		require.NoError(t, err)
	}
	seen := 0
	for got := byte(0); got < frames; seen++ {
		d, err := r.next()
		require.NoError(t, err)
		if d.Message.From == at {
			require.Equal(t, []byte{got}, d.Body)
			got++
		}
		d.Release()
	}
	require.Less(t, seen, everyFrames+inATurn)
	_, err = r.next()
	var tooLong *efa.TooLongError
	require.ErrorAs(t, err, &tooLong)
	m, err := tooLong.Claimed.Recv(context.Background(), make([]byte, long))
	require.NoError(t, err)
	require.Equal(t, long, m.N)
	for range others - (seen - frames) { // a turn of a session without a frame takes another's
		d, err := r.next()
		require.NoError(t, err)
		require.Equal(t, []byte{99}, d.Body)
		d.Release()
	}
}
