package eratest

import "github.com/efactor/efactor/wire"

var (
	readable = greet(wire.FeatureRDMARead)
	oneIOV   = [wire.MaxIOV]wire.RMAIOV{place}
)

// handshake is the endpoint's, with these features only.
func handshake(f ...wire.Feature) step {
	return sent(&wire.Handshake{Features: wire.MakeFeatures(f...)}, 0)
}

var featureCases = []ruleCase{
	{
		rule: RuleFeature, name: "DC",
		before: []step{handshake(wire.FeatureConnIDHeader)},
		breaks: take(&wire.EagerRTM{Options: known, DC: true}, 1),
		passes: take(&wire.EagerRTM{Options: known}, 1),
	},
	{
		rule: RuleFeature, name: "long-read",
		before: []step{greet()},
		breaks: take(longRead(0), 0),
		passes: take(&wire.EagerRTM{Options: intro}, 0),
	},
	{
		rule: RuleFeature, name: "runt without reading",
		before: []step{greet()},
		breaks: take(runt(0), 100),
		passes: take(&wire.EagerRTM{Options: intro}, 100),
	},
	{
		rule: RuleFeature, name: "runt",
		before: []step{handshake(wire.FeatureConnIDHeader, wire.FeatureRDMARead)},
		breaks: take(runt(0), 100),
		passes: take(longRead(0), 0),
	},
	{
		rule: RuleFeature, name: "READ_NACK",
		before: []step{handshake(wire.FeatureRDMARead), sent(longRead(0), 0)},
		breaks: take(&wire.ReadNACK{SendID: 5}, 0),
		passes: take(&wire.EOR{SendID: 5}, 0),
	},
	{
		rule: RuleFeature, name: "used before it was said",
		before: []step{take(longRead(0), 0)},
		breaks: greet(),
		passes: readable,
	},
	{
		rule: RuleConnID, name: "before 1.14", era: "1.13", mild: "1.14",
		before: []step{handshake(wire.FeatureDeliveryComplete, wire.FeatureConnIDHeader)},
		breaks: take(&wire.EagerRTM{Options: known}, 1),
		passes: take(&wire.EagerRTM{}, 1),
	},
	{
		rule: RuleConnID, name: "not asked for",
		before: []step{handshake(wire.FeatureDeliveryComplete)},
		breaks: take(&wire.EagerRTM{Options: known}, 1),
		passes: take(&wire.EagerRTM{}, 1),
	},
	{
		rule: RuleConnID, name: "in CTSDATA", era: "1.13",
		before: []step{
			take(&wire.LongCTSRTM{Options: intro, MsgLength: 200, SendID: 5}, 100),
			handshake(wire.FeatureDeliveryComplete),
			sent(&wire.CTS{SendID: 5, RecvID: 6, RecvLength: 100}, 0),
		},
		breaks: take(&wire.CTSData{RecvID: 6, SegLength: 100, SegOffset: 100, HasConnID: true, ConnID: 99}, 100),
		passes: take(&wire.CTSData{RecvID: 6, SegLength: 100, SegOffset: 100}, 100),
	},
	{
		rule: RuleConstant, name: "connid instead", era: "1.17.0",
		before: []step{handshake(wire.FeatureConstantHeader, wire.FeatureConnIDHeader)},
		breaks: take(&wire.EagerRTM{Options: known}, 1),
		passes: take(&wire.EagerRTM{Options: intro}, 1),
	},
	{
		rule: RuleUserQP, name: "message",
		before: []step{greet(wire.FeatureUserRecvQP)},
		breaks: take(&wire.EagerRTM{Options: known}, 1),
		passes: take(&wire.EagerRTW{Options: known}, 0),
	},
	{
		rule: RuleUserQP, name: "message before it was said",
		before: []step{take(&wire.EagerRTM{Options: intro}, 1)},
		breaks: greet(wire.FeatureUserRecvQP),
		passes: greet(),
	},
}

var requestCases = []ruleCase{
	{
		rule: RuleLengths, name: "eager write",
		breaks: take(&wire.EagerRTW{Options: intro, RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 101}}}, 100),
		passes: take(&wire.EagerRTW{Options: intro, RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 100}}}, 100),
	},
	{
		rule: RuleLengths, name: "lengths that overflow",
		breaks: take(&wire.EagerRTW{Options: intro, RMAIOVCount: 2, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 1<<64 - 1}, {Len: 101}}}, 100),
		passes: take(&wire.EagerRTW{Options: intro, RMAIOVCount: 2, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 99}, {Len: 1}}}, 100),
	},
	{
		rule: RuleLengths, name: "long-CTS write",
		breaks: take(&wire.LongCTSRTW{Options: intro, RMAIOVCount: 1, RMAIOV: oneIOV, MsgLength: 4999}, 100),
		passes: take(&wire.LongCTSRTW{Options: intro, RMAIOVCount: 1, RMAIOV: oneIOV, MsgLength: 5000}, 100),
	},
	{
		rule: RuleLengths, name: "long-CTS write with all of it",
		breaks: take(&wire.LongCTSRTW{Options: intro, RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 9}}, MsgLength: 9}, 9),
		passes: take(&wire.LongCTSRTW{Options: intro, RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 9}}, MsgLength: 9}, 8),
	},
	{
		rule: RuleLengths, name: "long-read write",
		breaks: take(&wire.LongReadRTW{
			Options: intro, MsgLength: 5000, RMAIOVCount: 1, RMAIOV: oneIOV,
			ReadIOVCount: 1, ReadIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 4999}},
		}, 0),
		passes: take(&wire.LongReadRTW{
			Options: intro, MsgLength: 5000, RMAIOVCount: 1, RMAIOV: oneIOV, ReadIOVCount: 1, ReadIOV: oneIOV,
		}, 0),
	},
	{
		rule: RuleLengths, name: "long-read of nowhere",
		breaks: take(&wire.LongReadRTM{Options: intro, MsgLength: 5000}, 0),
		passes: take(longRead(0), 0),
	},
	{
		rule: RuleLengths, name: "runt beyond the message",
		breaks: take(&wire.RuntReadRTM{Options: intro, MsgLength: 5000, RuntLength: 5001, ReadIOVCount: 1, ReadIOV: oneIOV}, 9),
		passes: take(&wire.RuntReadRTM{Options: intro, MsgLength: 5000, RuntLength: 5000, ReadIOVCount: 1, ReadIOV: oneIOV}, 9),
	},
	{
		rule: RuleLengths, name: "read",
		breaks: take(&wire.RTR{Options: intro, RMAIOVCount: 1, RMAIOV: oneIOV, MsgLength: 100}, 0),
		passes: take(&wire.RTR{Options: intro, RMAIOVCount: 1, RMAIOV: oneIOV, MsgLength: 5000, RecvLength: 5000, LongCTS: true}, 0),
	},
	{
		rule: RuleLengths, name: "seg_length",
		before: []step{sent(&wire.RTR{RecvID: 5, MsgLength: 9, RecvLength: 9}, 0)},
		breaks: take(&wire.READRSP{RecvID: 5, SegLength: 9}, 8),
		passes: take(&wire.READRSP{RecvID: 5, SegLength: 9}, 9),
	},
	{
		rule: RuleFirstWindow, name: "long-CTS read",
		breaks: take(&wire.RTR{Options: intro, RMAIOVCount: 1, RMAIOV: oneIOV, MsgLength: 5000, RecvLength: mtu - 25, LongCTS: true}, 0),
		passes: take(&wire.RTR{Options: intro, RMAIOVCount: 1, RMAIOV: oneIOV, MsgLength: 5000, RecvLength: mtu - 24, LongCTS: true}, 0),
	},
	{
		rule: RuleFirstWindow, name: "long-CTS read of little",
		breaks: take(&wire.RTR{Options: intro, RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 9}}, MsgLength: 9, RecvLength: 8, LongCTS: true}, 0),
		passes: take(&wire.RTR{Options: intro, RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: 9}}, MsgLength: 9, RecvLength: 9, LongCTS: true}, 0),
	},
	{
		rule: RuleFirstWindow, name: "short read that is not",
		breaks: take(&wire.RTR{Options: intro, RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: mtu - 23}}, MsgLength: mtu - 23}, 0),
		passes: take(&wire.RTR{Options: intro, RMAIOVCount: 1, RMAIOV: [wire.MaxIOV]wire.RMAIOV{{Len: mtu - 24}}, MsgLength: mtu - 24}, 0),
	},
	{
		rule: RuleCount, name: "none",
		breaks: take(rta(wire.RTAWrite, wire.OpSum), 0),
		passes: take(rta(wire.RTAWrite, wire.OpSum, 16), 16),
	},
	{
		rule: RuleCount, name: "compare at two places", era: "2.3.1", mild: "1.17.0",
		breaks: take(rta(wire.RTACompare, wire.OpCSwap, 8, 8), 32),
		passes: take(rta(wire.RTACompare, wire.OpCSwap, 16), 32),
	},
	{
		rule: RuleAtomic, name: "compare's operation in a write",
		breaks: take(rta(wire.RTAWrite, wire.OpCSwap, 8), 8),
		passes: take(rta(wire.RTACompare, wire.OpCSwap, 8), 16),
	},
	{
		rule: RuleLengths, name: "part of an element",
		breaks: take(rta(wire.RTAWrite, wire.OpSum, 12), 12),
		passes: take(rta(wire.RTAWrite, wire.OpSum, 16), 16),
	},
	{
		rule: RuleLengths, name: "operand",
		breaks: take(rta(wire.RTAFetch, wire.OpSum, 16), 8),
		passes: take(rta(wire.RTAFetch, wire.OpRead, 16), 0),
	},
	{
		rule: RuleLengths, name: "comparand",
		breaks: take(rta(wire.RTACompare, wire.OpCSwap, 8), 8),
		passes: take(rta(wire.RTACompare, wire.OpCSwap, 8), 16),
	},
}

// rta is an atomic of UINT64 on places of these lengths.
func rta(k wire.RTAKind, op wire.AtomicOp, lens ...uint64) *wire.RTA {
	a := &wire.RTA{Options: intro, Kind: k, Datatype: wire.DatatypeUint64, Op: op, SendID: 5, RecvID: 6}
	for i, n := range lens {
		a.RMAIOVCount, a.RMAIOV[i].Len = a.RMAIOVCount+1, n
	}
	return a
}
