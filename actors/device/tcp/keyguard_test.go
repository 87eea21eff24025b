//go:build linux

package tcp

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

// TestKeysAreLong: the right low half of a key is not enough.
func TestKeysAreLong(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	mr, err := n.d.Alloc(100, device.RemoteRead)
	require.NoError(t, err)
	defer mr.Close()
	f := inside(t, n)
	read := frame{kind: kindRead, length: 1, token: 1, qkey: 5, rkey: mr.RKey() & (1<<32 - 1), addr: mr.Addr()}
	f.frame(read)
	require.Equal(t, device.StatusBadAddress, f.answer().status)
	read.rkey = mr.RKey()
	f.frame(read)
	require.Equal(t, kindData, f.answer().kind)
}

// TestGuesses: who tries keys that are none is sent away after a few, and must wait before
// another session, longer each time. Others of that host who were there already, and hosts
// that guess nothing, go on.
func TestGuesses(t *testing.T) {
	var now clock.Manual
	n := newNode(t, Config{Clock: &now}, device.QPConfig{})
	mr, err := n.d.Alloc(100, device.RemoteRead)
	require.NoError(t, err)
	defer mr.Close()
	good, old := inside(t, n), inside(t, n)
	f := inside(t, n)
	neighbor := newFoe(t, n, f)
	neighbor.at.qpn++
	require.Equal(t, taken, neighbor.reply(neighbor.hello()).verdict)
	neighbor.works()
	key := uint64(0)
	for wait := firstWait; wait <= 4*firstWait; wait *= 2 {
		require.Equal(t, maxWrongKeys, guess(f, &key))
		require.Equal(t, frame{kind: kindBye, status: device.StatusUnknownPeer}, f.answer())
		f.closed()
		now.Advance(wait - 1)
		again := newFoe(t, n, f)
		h := again.hello()
		h.session += key
		require.Equal(t, hostThrottled, again.reply(h).verdict)
		require.Equal(t, device.StatusUnknownPeer, n.status(n.send(f.at, "nor do we dial")))
		now.Advance(1)
		f = newFoe(t, n, f)
		require.Equal(t, taken, f.reply(h).verdict)
		neighbor.works()
	}
	require.EqualValues(t, 3*maxWrongKeys, n.d.Stats().Guesses)
	require.EqualValues(t, 3, n.d.Stats().SentAway)
	good.works()

	// Neither a key that was good until lately nor the same mistake again is a guess.
	key = mr.RKey()
	require.NoError(t, mr.Close())
	for range 2 * maxWrongKeys {
		old.read(key)
		old.read(7)
	}
	require.EqualValues(t, 3*maxWrongKeys+1, n.d.Stats().Guesses)
	old.works()
}

// TestGuessesOfQKeys: Q_Keys are guessed no better.
func TestGuessesOfQKeys(t *testing.T) {
	n := newNode(t, Config{}, device.QPConfig{})
	f := inside(t, n)
	for i := range uint64(maxWrongKeys) {
		f.frame(frame{kind: kindSend, token: i, qkey: uint32(100 + i)})
		require.Equal(t, device.StatusBadDestQPN, f.answer().status)
	}
	f.closed()
	require.EqualValues(t, 1, n.d.Stats().SentAway)
}

// TestGuessesOfMeant: where anybody may connect, the reply to a preamble shows whether it has our
// Q_Key: to try that counts as well, over and over from one queue pair or from several.
func TestGuessesOfMeant(t *testing.T) {
	for _, step := range []uint16{0, 1} {
		var now clock.Manual
		n := newNode(t, Config{Clock: &now, AnyLocalUser: true}, device.QPConfig{})
		good := newFoe(t, n, nil)
		h := good.hello()
		h.meant = 5
		require.True(t, good.reply(h).keyed)
		var f *foe
		try := func(meant uint32) preamble {
			like := f
			if f = newFoe(t, n, like); like != nil {
				f.at.qpn += step
			}
			h := f.hello()
			h.session += uint64(meant)
			h.meant = meant
			return f.reply(h)
		}
		for i := range uint32(maxWrongKeys) {
			r := try(100 + i)
			require.Equal(t, taken, r.verdict)
			require.False(t, r.keyed)
		}
		require.Equal(t, frame{kind: kindBye, status: device.StatusUnknownPeer}, f.answer())
		f.closed()
		require.Equal(t, hostThrottled, try(5).verdict)
		require.EqualValues(t, maxWrongKeys, n.d.Stats().Guesses)
		require.EqualValues(t, 1, n.d.Stats().SentAway)
		now.Advance(firstWait)
		require.True(t, try(200).verdict == taken)
		good.works()
	}
}

// guess tries keys until that ends the session, and returns how many.
func guess(f *foe, key *uint64) (tried int) {
	f.t.Helper()
	for sent := f.n.d.Stats().SentAway; f.n.d.Stats().SentAway == sent; tried++ {
		*key += 1 << 40
		f.read(*key)
	}
	return tried
}

// read asks for a byte under a key, in vain.
func (f *foe) read(key uint64) {
	f.t.Helper()
	f.next++
	f.frame(frame{kind: kindRead, length: 1, token: f.next, qkey: 5, rkey: key, addr: 4096})
	require.Equal(f.t, frame{kind: kindStatus, token: f.next, status: device.StatusBadAddress}, f.answer())
}

// TestQKeyIsNotTold: a reply has our Q_Key only for a connection that proved to be a
// peer's: one that is refused does not get it, nor, where anybody may connect, one that
// does not know it.
func TestQKeyIsNotTold(t *testing.T) {
	n := newNode(t, Config{AnyLocalUser: true}, device.QPConfig{})
	for _, c := range []struct {
		change func(*preamble)
		keyed  bool
	}{
		{func(p *preamble) { p.mtu-- }, false},
		{func(p *preamble) { p.mtu--; p.meant = 5 }, false},
		{func(p *preamble) { p.to.qpn++ }, false},
		{func(*preamble) {}, false},
		{func(p *preamble) { p.meant = 5 }, true},
	} {
		f := newFoe(t, n, nil)
		h := f.hello()
		c.change(&h)
		r := f.reply(h)
		require.Equal(t, c.keyed, r.keyed)
		require.Equal(t, c.keyed, r.qkey == 5)
	}
	a, b := newNode(t, Config{AnyLocalUser: true}, device.QPConfig{}), newNode(t, Config{AnyLocalUser: true}, device.QPConfig{})
	wr := a.wr(b.at())
	wr.QKey++
	require.Equal(t, device.StatusBadDestQPN, a.status(a.post(wr), b), "a session, but not with whom we meant")
	require.Equal(t, device.StatusOK, a.status(a.send(b.at(), "found"), b))
}
