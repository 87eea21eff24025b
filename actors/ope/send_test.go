package ope

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// TestRemoteError: what PEER_ERROR means for the operation. The code may be any number.
func TestRemoteError(t *testing.T) {
	for _, c := range []struct {
		prov uint32
		want error
		code errno.Provider
	}{
		{uint32(errno.ProvPeerAborted), peer.ErrAborted, errno.ProvPeerAborted},
		{uint32(errno.ProvRMAAddr), peer.ErrRefused, errno.ProvRMAAddr},
		{0, peer.ErrAborted, 0},
		{math.MaxUint32, peer.ErrAborted, math.MaxUint16},
		{1<<16 | uint32(errno.ProvRMAAddr), peer.ErrAborted, math.MaxUint16},
	} {
		err := remoteError(c.prov)
		require.ErrorIs(t, err, c.want)
		var remote *peer.RemoteError
		require.ErrorAs(t, err, &remote)
		require.Equal(t, c.code, remote.Provider)
	}
	a, b := errors.New("a"), errors.New("b")
	require.Equal(t, a, firstError(a, b))
	require.Equal(t, b, firstError(nil, b))
	require.NoError(t, firstError(nil, nil))
}

// TestCredits: how many packets a long-CTS request asks for at a time.
func TestCredits(t *testing.T) {
	for _, c := range []struct {
		total   uint64
		credits int
		want    uint32
	}{
		{1, 32, 32},
		{1 << 20, 32, 32},
		{1 << 40, 4, 4},
	} {
		env := &peer.Env{MTU: testMTU}
		env.Config.Credits = c.credits
		tx := &Txe{pools: &Pools{env: env, Policy: &env.Config}, m: Tx{Total: c.total}}
		require.Equal(t, c.want, tx.credits(), "%+v", c)
	}
}

// TestUnconfirmedRMA: writes by packets of which only the device's acknowledgement is known keep
// RDMA writes after them from overtaking them.
func TestUnconfirmedRMA(t *testing.T) {
	for _, c := range []struct {
		name   string
		sent   wire.Type
		n      uint64
		probes uint64
		want   bool
	}{
		{"no writes", wire.TypeEagerMsgRTM, 5, 0, false},
		{"an eager write", wire.TypeEagerRTW, 1, 0, true},
		{"probes are writes of nothing", wire.TypeEagerRTW, 3, 3, false},
		{"a write beside probes", wire.TypeEagerRTW, 4, 3, true},
		{"a long write", wire.TypeLongCTSRTW, 1, 0, true},
		{"an update", wire.TypeWriteRTA, 1, 0, true},
		{"a write that the peer confirms", wire.TypeDCEagerRTW, 1, 0, false},
		{"a write that the peer reads", wire.TypeLongReadRTW, 1, 0, false},
		{"a fetch", wire.TypeFetchRTA, 1, 0, false},
	} {
		env := new(peer.Env)
		env.Counters.PacketsSent[c.sent], env.Counters.Probes = c.n, c.probes
		require.Equal(t, c.want, unconfirmedRMA(env), c.name)
	}
}

// TestReadFrom: a request says where the peer reads the message: one piece, or each of several.
func TestReadFrom(t *testing.T) {
	tx := &Txe{q: new(Request), m: Tx{Total: 100}, x: &txExt{key: 7, addr: 5000}}
	iov, n := tx.readFrom()
	require.Equal(t, []wire.RMAIOV{{Addr: 5000, Len: 100, Key: 7}}, iov[:n])
	tx.q.Flags |= HasIOV
	want := []wire.RMAIOV{{Addr: 1, Len: 60, Key: 2}, {Addr: 3, Len: 40, Key: 4}}
	tx.x.iovs = &lentIOVs{n: 2}
	copy(tx.x.iovs.iov[:], want)
	iov, n = tx.readFrom()
	require.Equal(t, want, iov[:n])
}

// TestIsREQ: which packets of an operation count as requests under way, which hold its line up.
func TestIsREQ(t *testing.T) {
	for _, c := range []struct {
		typ   wire.Type
		spent bool
		want  bool
	}{
		{wire.TypeMediumMsgRTM, true, true},
		{wire.TypeWriteRTA, true, true},
		{wire.TypeCTSData, true, false},
		{wire.TypeEagerRTW, false, false}, // a write spends no msg_id
		{wire.TypePeerError, true, false},
	} {
		tx := &Txe{marks: marks{spent: c.spent}}
		p := filled(c.typ)
		require.Equal(t, c.want, tx.isREQ(p), c.typ)
		require.False(t, isRunt(p), c.typ)
	}
	require.True(t, isRunt(filled(wire.TypeRuntReadMsgRTM)))
	require.True(t, isRunt(filled(wire.TypeRuntReadTagRTM)))
	require.False(t, isRunt(filled(wire.TypeLongReadMsgRTM)))
}

// TestRuntOver: a runt counts in the link's bytes under way until its packets have arrived.
func TestRuntOver(t *testing.T) {
	l := new(peer.Link)
	l.AddRunt(150)
	x := &txExt{runt: 100}
	for _, c := range []struct{ n, left, link int }{{60, 40, 90}, {0, 40, 90}, {60, 0, 50}, {10, 0, 50}} {
		x.runtOver(l, c.n)
		require.Equal(t, c.left, x.runt)
		require.Equal(t, c.link, l.Runt())
	}
}

// filled is an entry with a packet of the type.
func filled(typ wire.Type) *device.Pke {
	p := new(device.Pke)
	p.Fill(append(p.Header(), byte(typ)), nil)
	return p
}
