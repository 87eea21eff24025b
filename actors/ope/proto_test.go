package ope

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/wire"
)

// TestProtos: each subprotocol has a name of its own, and what is no subprotocol has none.
func TestProtos(t *testing.T) {
	seen := map[string]Proto{}
	for p := ProtoNone; p < numProtos; p++ {
		name := p.String()
		require.NotEmpty(t, name, "subprotocol %d", p)
		require.NotContains(t, seen, name)
		seen[name] = p
		require.False(t, p.dc() && p.readBased(), "%s has one answer", p)
		require.False(t, protos[p].cts && protos[p].parts, "%s has one kind of rest", p)
	}
	require.Equal(t, "-", numProtos.String())
	require.Equal(t, "-", Proto(255).String())
}

// TestKeyKind: both sides know an operation by a msg_id if it takes part in the order of messages,
// else by the id by which it is answered.
func TestKeyKind(t *testing.T) {
	for kind, protos := range map[trail.KeyKind][]Proto{
		trail.MsgID:  {Eager, Medium, LongCTS, LongRead, RuntRead, DCEager, DCMedium, DCLongCTS, WriteAtomic, FetchAtomic, CompareAtomic, DCWriteAtomic},
		trail.SendID: {LongCTSWrite, LongReadWrite, DCEagerWrite, DCLongCTSWrite},
		trail.RecvID: {ShortRead, LongCTSRead},
		trail.NoKey:  {ProtoNone, Headerless, EagerWrite, DirectWrite, DirectRead, ReadResponse, ReceiptOnly, ErrorOnly},
	} {
		for _, p := range protos {
			require.Equal(t, kind, p.KeyKind(), p)
		}
	}
}

// TestProtoOf: the subprotocol that a peer chose shows in its first packet. The receiver's machine
// waits for what that subprotocol sends.
func TestProtoOf(t *testing.T) {
	for typ, want := range map[wire.Type]struct {
		proto        Proto
		cts, dc, eor bool
	}{
		wire.TypeEagerMsgRTM:     {proto: Eager},
		wire.TypeEagerTagRTM:     {proto: Eager},
		wire.TypeMediumTagRTM:    {proto: Medium},
		wire.TypeLongCTSMsgRTM:   {proto: LongCTS, cts: true},
		wire.TypeLongReadTagRTM:  {proto: LongRead, eor: true},
		wire.TypeRuntReadMsgRTM:  {proto: RuntRead, eor: true},
		wire.TypeDCEagerMsgRTM:   {proto: DCEager, dc: true},
		wire.TypeDCMediumTagRTM:  {proto: DCMedium, dc: true},
		wire.TypeDCLongCTSMsgRTM: {proto: DCLongCTS, cts: true, dc: true},
		wire.TypeEagerRTW:        {proto: EagerWrite},
		wire.TypeDCEagerRTW:      {proto: DCEagerWrite, dc: true},
		wire.TypeLongCTSRTW:      {proto: LongCTSWrite, cts: true},
		wire.TypeDCLongCTSRTW:    {proto: DCLongCTSWrite, cts: true, dc: true},
		wire.TypeLongReadRTW:     {proto: LongReadWrite, eor: true},
	} {
		p := protoOf[typ]
		require.Equal(t, want.proto, p, typ)
		require.Equal(t, want.cts, protos[p].cts, typ)
		require.Equal(t, want.dc, p.dc(), typ)
		require.Equal(t, want.eor, p.readBased(), typ)
	}
}
