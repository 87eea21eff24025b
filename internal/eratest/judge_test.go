package eratest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/wire"
)

func judge(t *testing.T, release string) *Judge {
	p, ok := era.ByName(release)
	require.True(t, ok)
	return NewJudge(p, mtu)
}

func tellAll(t *testing.T, j *Judge, steps ...step) {
	t.Helper()
	for i, s := range steps {
		require.NoError(t, s.tell(j), "step %d", i)
	}
}

// TestGoldenTwice delivers every captured message and answer a second time: each is
// a fault, since its msg_id, bytes or operation are used up.
func TestGoldenTwice(t *testing.T) {
	scenarios, err := golden.Load()
	require.NoError(t, err)
	rules := map[Rule]int{}
	for i := range scenarios {
		s := &scenarios[i]
		e, _ := era.ByName(s.Libfabric)
		e.OneCompareIOV = false
		judges := map[string]*Judge{"A": NewJudge(e, golden.MTU), "B": NewJudge(e, golden.MTU)}
		s.Each(func(p *golden.Packet, to string, b []byte) {
			from := wire.RawAddr(s.RawAddr[p.From])
			require.NoError(t, judges[p.From].Sent(b, wire.RawAddr(s.RawAddr[to])))
			require.NoError(t, judges[to].Take(b, from))
			switch typ := wire.Type(b[0]); {
			case typ.HasMsgID(), typ == wire.TypeCTSData, !typ.IsREQ() && typ != wire.TypeHandshake:
				err := judges[to].Take(b, from)
				var f *Fault
				require.ErrorAs(t, err, &f, "%s %s #%d", s.Libfabric, s.Name, p.Seq)
				rules[f.Rule]++
			}
		})
	}
	for _, r := range []Rule{RuleDuplicate, RuleSegment, RuleID, RuleGrant, RuleNACK} {
		require.NotZero(t, rules[r], "%s: %v", r, rules)
		delete(rules, r)
	}
	for r := range rules {
		require.Equal(t, RuleWindow, r, "nothing else")
	}
}

// TestGoldenShuffled delivers the packets of a scenario's both ends late and in
// disorder, as a fabric may: an order is not a fault.
func TestGoldenShuffled(t *testing.T) {
	scenarios, err := golden.Load()
	require.NoError(t, err)
	swapped := 0
	for i := range scenarios {
		s := &scenarios[i]
		e, _ := era.ByName(s.Libfabric)
		e.OneCompareIOV = false
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		judges := map[string]*Judge{"A": NewJudge(e, golden.MTU), "B": NewJudge(e, golden.MTU)}
		late := map[string][]func() error{}
		flush := func(to string) {
			list := late[to]
			late[to] = nil
			rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i]; swapped++ })
			for _, f := range list {
				require.NoError(t, f(), "%s %s", s.Libfabric, s.Name)
			}
		}
		s.Each(func(p *golden.Packet, to string, b []byte) {
			flush(p.From) // what a side sends may answer all that it got
			require.NoError(t, judges[p.From].Sent(b, wire.RawAddr(s.RawAddr[to])))
			late[to] = append(late[to], func() error { return judges[to].Take(b, wire.RawAddr(s.RawAddr[p.From])) })
		})
		flush("A")
		flush("B")
	}
	require.Greater(t, swapped, 300)
}

// TestRepeats: packets that are posted again after RNR are noted again.
func TestRepeats(t *testing.T) {
	j := judge(t, "2.3.1")
	data := sent(&wire.CTSData{RecvID: 6, SegOffset: 100, SegLength: 100}, 100)
	tellAll(t, j,
		readable, readable, sent(longCTSMsg(0, false), 100), sent(longCTSMsg(0, false), 100),
		take(cts(200), 0), data, data, sent(&wire.CTSData{RecvID: 6, SegOffset: 200, SegLength: 100}, 100), data,
		take(cts(200), 0))

	j = judge(t, "2.3.1")
	rsp := sent(&wire.READRSP{RecvID: 6, SendID: 4, SegLength: 900}, 900)
	tellAll(t, j, take(longRTR(976), 0), rsp, rsp, sent(&wire.CTSData{RecvID: 6, SegOffset: 900, SegLength: 76}, 76), take(readCTS(900), 0))

	j = judge(t, "2.3.1")
	tellAll(t, j, readable, sent(runt(0), 100), sent(runt(0), 100), sent(runt(100), 100), take(&wire.EOR{SendID: 5}, 0))

	j = judge(t, "2.3.1")
	nack := sent(&wire.ReadNACK{SendID: 5}, 0)
	tellAll(t, j, readable, take(longRead(0), 0), nack, nack, take(longCTSMsg(0, true), 0), nack)
}

// TestIncarnations: a peer that comes back with another connid begins anew; late
// packets of the old one belong to the old one.
func TestIncarnations(t *testing.T) {
	j := judge(t, "2.3.1")
	again := wire.MakeRawAddr(peer.GID(), peer.QPN(), peer.ConnID()+1)
	second := func(id uint32) step {
		return take(&wire.EagerRTM{Options: wire.Options{HasRawAddr: true, RawAddr: again}, MsgID: id}, 1)
	}
	tellAll(t, j, greet(), eager(0), eager(1), second(0), eager(2), second(1))
	requireFault(t, RuleDuplicate, second(1).tell(j))
	requireFault(t, RuleDuplicate, eager(2).tell(j))

	// A packet without connid is of the most recent peer.
	none := take(&wire.EagerRTM{MsgID: 3}, 1)
	require.NoError(t, none.tell(j))
	requireFault(t, RuleIntroduction, take(&wire.EagerRTM{Options: wire.Options{HasConnID: true, ConnID: 5}, MsgID: 3}, 1).tell(j))
}

// TestSides: the state of one peer does not affect another.
func TestSides(t *testing.T) {
	j := judge(t, "2.3.1")
	other := wire.MakeRawAddr(peer.GID(), peer.QPN()+1, peer.ConnID())
	far := wire.MakeRawAddr([16]byte{1}, peer.QPN(), peer.ConnID())
	for _, from := range []wire.RawAddr{peer, other, far} {
		m := wire.EagerRTM{Options: wire.Options{HasRawAddr: true, RawAddr: from}}
		require.NoError(t, j.Take(m.Append(nil), from))
		requireFault(t, RuleDuplicate, j.Take(m.Append(nil), from))
	}
}

// TestIdsWrap: msg_ids go on behind 2^32 - 1.
func TestIdsWrap(t *testing.T) {
	j := judge(t, "1.22")
	j.FirstMsgID = 1<<32 - 2
	tellAll(t, j, eager(0), eager(1<<32-2), eager(1), eager(1<<32-1))
	requireFault(t, RuleDuplicate, eager(1).tell(j))
	requireFault(t, RuleAhead, eager(2+16384).tell(j))
	require.NoError(t, eager(1+16384).tell(j))
}

// TestPeerError: an aborted operation is over, and a skipped msg_id has had its
// turn.
func TestPeerError(t *testing.T) {
	abort := func(kind wire.RefKind, id uint32) step {
		return take(&wire.PeerError{Form: wire.PeerErrorForm20, RefKind: kind, OpID: id}, 0)
	}
	hello := greet(wire.FeaturePeerError, wire.FeatureRDMARead)

	j := judge(t, "main")
	tellAll(t, j, hello, abort(wire.RefMsgIDSkip, 0), eager(1))
	requireFault(t, RuleDuplicate, eager(0).tell(j))

	j = judge(t, "main")
	tellAll(t, j, hello, medium(0, 0, 100), abort(wire.RefMsgID, 0))
	requireFault(t, RuleDuplicate, medium(0, 100, 100).tell(j))

	j = judge(t, "main")
	tellAll(t, j, hello, take(longRead(0), 0), abort(wire.RefMsgID, 0), sent(&wire.ReadNACK{SendID: 5}, 0))
	requireFault(t, RuleNACK, take(longCTSMsg(0, true), 0).tell(j))

	j = judge(t, "main")
	tellAll(t, j, hello, sent(longRead(0), 0), abort(wire.RefOpe, 5))
	requireFault(t, RuleID, take(&wire.EOR{SendID: 5}, 0).tell(j))

	j = judge(t, "main")
	tellAll(t, j, hello, take(longCTSMsg(0, false), 100), sent(cts(900), 0), abort(wire.RefOpe, 6))
	requireFault(t, RuleID, ctsData(100, 100).tell(j))
}

// TestPeerErrorForms: the later forms name a message by its msg_id, and each release reads its own alone.
func TestPeerErrorForms(t *testing.T) {
	hello := greet(wire.FeaturePeerError, wire.FeatureRDMARead)
	for release, form := range map[string]wire.PeerErrorForm{"main28": wire.PeerErrorForm28, "2.7": wire.PeerErrorForm24} {
		of := func(e wire.Emitter, msgID, id uint32) step {
			return take(&wire.PeerError{Form: form, Emitter: e, MsgID: msgID, OpID: id}, 0)
		}
		j := judge(t, release)
		tellAll(t, j, hello, of(wire.EmitterTX, 0, wire.NoOpID), eager(1))
		requireFault(t, RuleDuplicate, eager(0).tell(j))

		j = judge(t, release)
		tellAll(t, j, hello, medium(0, 0, 100), of(wire.EmitterTX, 0, wire.NoOpID))
		requireFault(t, RuleDuplicate, medium(0, 100, 100).tell(j))

		j = judge(t, release)
		tellAll(t, j, hello, sent(longRead(0), 0), of(wire.EmitterRX, 0, 5))
		requireFault(t, RuleID, take(&wire.EOR{SendID: 5}, 0).tell(j))

		for _, other := range []wire.PeerErrorForm{wire.PeerErrorForm20, wire.PeerErrorForm24, wire.PeerErrorForm28} {
			if other != form {
				j = judge(t, release)
				tellAll(t, j, hello)
				requireFault(t, RuleForm, take(&wire.PeerError{Form: other}, 0).tell(j))
			}
		}
	}
}

// TestOwnBusiness: packets of the endpoint are not judged, and unknown ones do not
// stop the judge.
func TestOwnBusiness(t *testing.T) {
	j := judge(t, "1.10")
	tellAll(t, j,
		step{out: true, raw: []byte{1, 2, 3}},
		sent(&wire.CTSData{RecvID: 1, SegLength: 1}, 1), sent(cts(1), 0), sent(readCTS(1), 0),
		sent(&wire.READRSP{RecvID: 1}, 0), sent(&wire.EOR{SendID: 1}, 0), sent(&wire.ATOMRSP{RecvID: 1}, 0),
		eager(0))
}

func TestFaultText(t *testing.T) {
	j := judge(t, "1.10")
	err := take(&wire.EagerRTM{Options: intro, DC: true, SendID: 3}, 1).tell(j)
	require.EqualError(t, err, "eratest: 1.10: type: DC_EAGER_MSGRTM came later "+
		"(DC_EAGER_MSGRTM msg_id=0 send_id=3 raw_addr=fi_addr_efa://[fe80::1]:7:99 len=1)")
}

// TestSpans compares spans with a set of bytes.
func TestSpans(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var s spans
		var set [64]bool
		count := uint64(0)
		for range 60 {
			lo := rng.IntN(64)
			n := rng.IntN(min(9, 65-lo))
			free := true
			for i := lo; i < lo+n; i++ {
				free = free && !set[i]
			}
			before := append(spans(nil), s...)
			require.Equal(t, free, s.add(uint64(lo), uint64(n)))
			if free {
				for i := lo; i < lo+n; i++ {
					set[i] = true
				}
				count += uint64(n)
			} else {
				require.Equal(t, before, append(spans(nil), s...))
			}
			require.Equal(t, count, s.size())
			for i := 1; i < len(s); i++ {
				require.Less(t, s[i-1].hi, s[i].lo, "they touch")
			}
		}
	}
	var s spans
	require.False(t, s.add(1<<64-1, 2), "beyond all bytes")
}
