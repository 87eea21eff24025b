package eratest

import "github.com/efactor/efactor/wire"

func eager(id uint32) step { return take(&wire.EagerRTM{Options: intro, MsgID: id}, 1) }

func medium(id uint32, off uint64, n int) step {
	return take(&wire.MediumRTM{Options: intro, MsgID: id, MsgLength: 300, SegOffset: off}, n)
}

func longCTSMsg(id uint32, nack bool) *wire.LongCTSRTM {
	return &wire.LongCTSRTM{Options: intro, MsgID: id, MsgLength: 5000, SendID: 5, ReadNACK: nack}
}

func cts(grant uint64) *wire.CTS { return &wire.CTS{SendID: 5, RecvID: 6, RecvLength: grant} }

func ctsData(off uint64, n int) step {
	return take(&wire.CTSData{RecvID: 6, SegLength: uint64(n), SegOffset: off}, n)
}

func shortRTR() *wire.RTR { return &wire.RTR{RecvID: 6, MsgLength: 9, RecvLength: 9} }

func longRTR(grant uint32) *wire.RTR {
	return &wire.RTR{
		Options: intro, RMAIOVCount: 1, RMAIOV: oneIOV, RecvID: 6, MsgLength: 5000, RecvLength: grant, LongCTS: true,
	}
}

func readCTS(grant uint64) *wire.CTS {
	return &wire.CTS{SendID: 4, RecvID: 6, RecvLength: grant, EmulatedRead: true}
}

var orderCases = []ruleCase{
	{
		rule: RuleAhead, name: "16384", era: "1.22", mild: "2.0",
		breaks: eager(16384),
		passes: eager(16383),
	},
	{
		rule: RuleAhead, name: "others came", era: "1.10",
		before: []step{eager(0), eager(2), eager(1)},
		breaks: eager(16387),
		passes: eager(16386),
	},
	{
		rule: RuleDuplicate, name: "in its turn",
		before: []step{eager(0)},
		breaks: eager(0),
		passes: eager(1),
	},
	{
		rule: RuleDuplicate, name: "before its turn",
		before: []step{eager(3)},
		breaks: eager(3),
		passes: eager(2),
	},
	{
		rule: RuleDuplicate, name: "from the end of the ids",
		breaks: eager(1<<32 - 1),
		passes: eager(0),
	},
	{
		rule: RuleDuplicate, name: "an atomic",
		before: []step{take(rta(wire.RTAWrite, wire.OpSum, 8), 8)},
		breaks: eager(0),
		passes: eager(1),
	},
	{
		rule: RuleDuplicate, name: "a medium message that is whole",
		before: []step{medium(0, 100, 200), medium(0, 0, 100)},
		breaks: medium(0, 0, 100),
		passes: medium(1, 0, 100),
	},
	{
		rule: RuleDuplicate, name: "a message that is being read",
		before: []step{take(longRead(0), 0)},
		breaks: take(longRead(0), 0),
		passes: eager(1),
	},
	{
		rule: RuleSegment, name: "overlap",
		before: []step{medium(0, 100, 100)},
		breaks: medium(0, 199, 101),
		passes: medium(0, 200, 100),
	},
	{
		rule: RuleSegment, name: "beyond the end",
		breaks: medium(0, 200, 101),
		passes: medium(0, 200, 100),
	},
	{
		rule: RuleSegment, name: "another length",
		before: []step{medium(0, 0, 100)},
		breaks: take(&wire.MediumRTM{Options: intro, MsgLength: 301, SegOffset: 100}, 100),
		passes: medium(0, 100, 100),
	},
	{
		rule: RuleSegment, name: "runt",
		before: []step{take(runt(0), 100)},
		breaks: take(runt(100), 101),
		passes: take(runt(100), 100),
	},
	{
		rule: RuleSegment, name: "runt again",
		before: []step{take(runt(0), 100), take(runt(100), 100)},
		breaks: take(runt(100), 100),
		passes: eager(1),
	},
	{
		rule: RuleNACK, name: "nothing was refused",
		before: []step{take(longRead(0), 0)},
		breaks: take(longCTSMsg(0, true), 0),
		passes: take(longCTSMsg(1, false), 1),
	},
	{
		rule: RuleNACK, name: "another one was",
		before: []step{take(longRead(0), 0), sent(&wire.ReadNACK{SendID: 5}, 0)},
		breaks: take(longCTSMsg(1, true), 0),
		passes: take(longCTSMsg(0, true), 0),
	},
	{
		rule: RuleNACK, name: "twice",
		before: []step{take(longRead(0), 0), sent(&wire.ReadNACK{SendID: 5}, 0), take(longCTSMsg(0, true), 0)},
		breaks: take(longCTSMsg(0, true), 0),
		passes: eager(1),
	},
	{
		rule: RuleLengths, name: "data in what replaces a message",
		before: []step{take(longRead(0), 0), sent(&wire.ReadNACK{SendID: 5}, 0)},
		breaks: take(longCTSMsg(0, true), 1),
		passes: take(longCTSMsg(0, true), 0),
	},
}

var dataCases = []ruleCase{
	{
		rule: RuleEarlyData, name: "CTSDATA",
		before: []step{take(longCTSMsg(0, false), 100), sent(cts(900), 0)},
		breaks: ctsData(100, 900),
		passes: greet(),
	},
	{
		rule: RuleID, name: "CTSDATA",
		before: []step{greet(), take(longCTSMsg(0, false), 100)},
		breaks: ctsData(100, 900),
		passes: take(longCTSMsg(1, false), 100),
	},
	{
		rule: RuleWindow, name: "one byte more",
		before: []step{greet(), take(longCTSMsg(0, false), 100), sent(cts(900), 0), ctsData(100, 500)},
		breaks: ctsData(600, 401),
		passes: ctsData(600, 400),
	},
	{
		rule: RuleWindow, name: "the second window",
		before: []step{greet(), take(longCTSMsg(0, false), 100), sent(cts(900), 0), ctsData(100, 900), sent(cts(900), 0)},
		breaks: ctsData(1000, 901),
		passes: ctsData(1000, 900),
	},
	{
		rule: RuleSegment, name: "CTSDATA of what the request had",
		before: []step{greet(), take(longCTSMsg(0, false), 100), sent(cts(900), 0)},
		breaks: ctsData(99, 900),
		passes: ctsData(100, 900),
	},
	{
		rule: RuleSegment, name: "CTSDATA beyond the end",
		before: []step{greet(), take(longCTSMsg(0, false), 100), sent(cts(900), 0)},
		breaks: ctsData(4101, 900),
		passes: ctsData(4100, 900),
	},
	{
		rule: RuleID, name: "CTSDATA of what is whole",
		before: []step{
			greet(), take(&wire.LongCTSRTM{Options: intro, MsgLength: 200, SendID: 5}, 100), sent(cts(100), 0), ctsData(100, 100),
		},
		breaks: ctsData(100, 100),
		passes: eager(1),
	},
	{
		rule: RuleWindow, name: "after READ_NACK the runt counts",
		before: []step{
			readable, take(runt(0), 200), sent(&wire.ReadNACK{SendID: 5, RecvID: 6}, 0), take(longCTSMsg(0, true), 0),
			sent(cts(4800), 0), ctsData(200, 900), ctsData(1100, 900), ctsData(2000, 900), ctsData(2900, 900), ctsData(3800, 900),
		},
		breaks: ctsData(4700, 301),
		passes: ctsData(4700, 300),
	},
	{
		rule: RuleWindow, name: "read",
		before: []step{greet(), sent(longRTR(1000), 0), take(&wire.READRSP{RecvID: 6, SendID: 4, SegLength: 900}, 900)},
		breaks: ctsData(900, 101),
		passes: ctsData(900, 100),
	},
	{
		rule: RuleWindow, name: "read, before READRSP came", // the network may turn them round
		before: []step{greet(), sent(longRTR(1000), 0), ctsData(900, 100)},
		breaks: take(&wire.READRSP{RecvID: 6, SendID: 4, SegLength: 901}, 901),
		passes: take(&wire.READRSP{RecvID: 6, SendID: 4, SegLength: 900}, 900),
	},
	{
		rule: RuleWindow, name: "read, second window",
		before: []step{
			greet(), sent(longRTR(900), 0), take(&wire.READRSP{RecvID: 6, SendID: 4, SegLength: 900}, 900), sent(readCTS(500), 0),
		},
		breaks: ctsData(900, 501),
		passes: ctsData(900, 500),
	},
	{
		rule: RuleID, name: "READRSP to nothing",
		before: []step{sent(shortRTR(), 0)},
		breaks: take(&wire.READRSP{RecvID: 7, SegLength: 9}, 9),
		passes: take(&wire.READRSP{RecvID: 6, SegLength: 9}, 9),
	},
	{
		rule: RuleID, name: "READRSP twice",
		before: []step{sent(longRTR(2000), 0), take(&wire.READRSP{RecvID: 6, SegLength: 9}, 9), greet()},
		breaks: take(&wire.READRSP{RecvID: 6, SegLength: 9}, 9),
		passes: ctsData(9, 9),
	},
}

var answerCases = []ruleCase{
	{
		rule: RuleGrant, name: "nothing",
		before: []step{sent(longCTSMsg(0, false), 100)},
		breaks: take(cts(0), 0),
		passes: take(cts(1), 0),
	},
	{
		rule: RuleGrant, name: "more than is left",
		before: []step{sent(longCTSMsg(0, false), 100)},
		breaks: take(cts(4901), 0),
		passes: take(cts(4900), 0),
	},
	{
		rule: RuleGrant, name: "too early",
		before: []step{
			sent(longCTSMsg(0, false), 100), take(cts(200), 0),
			sent(&wire.CTSData{RecvID: 6, SegOffset: 100, SegLength: 100}, 100),
		},
		breaks: take(cts(200), 0),
		passes: sent(&wire.CTSData{RecvID: 6, SegOffset: 200, SegLength: 100}, 100),
	},
	{
		rule: RuleGrant, name: "a read's for a message",
		before: []step{sent(longCTSMsg(0, false), 100)},
		breaks: take(&wire.CTS{SendID: 5, RecvID: 6, RecvLength: 9, EmulatedRead: true}, 0),
		passes: take(cts(9), 0),
	},
	{
		rule: RuleGrant, name: "a message's for a read",
		before: []step{
			take(longRTR(2000), 0), sent(&wire.READRSP{RecvID: 6, SendID: 4, SegLength: 900}, 900),
			sent(&wire.CTSData{RecvID: 6, SegOffset: 900, SegLength: 900}, 900),
			sent(&wire.CTSData{RecvID: 6, SegOffset: 1800, SegLength: 200}, 200),
		},
		breaks: take(&wire.CTS{SendID: 4, RecvID: 6, RecvLength: 9}, 0),
		passes: take(readCTS(3000), 0),
	},
	{
		rule: RuleGrant, name: "no long-CTS",
		before: []step{sent(longRead(0), 0)},
		breaks: take(cts(9), 0),
		passes: take(&wire.EOR{SendID: 5}, 0),
	},
	{
		rule: RuleGrant, name: "after READ_NACK the runt counts",
		before: []step{
			readable, sent(runt(0), 200), take(&wire.ReadNACK{SendID: 5}, 0), sent(longCTSMsg(0, true), 0),
		},
		breaks: take(cts(4801), 0),
		passes: take(cts(4800), 0),
	},
	{
		rule: RuleID, name: "CTS for what has gone",
		before: []step{
			sent(&wire.LongCTSRTM{MsgLength: 200, SendID: 5}, 100), take(cts(100), 0),
			sent(&wire.CTSData{RecvID: 6, SegOffset: 100, SegLength: 100}, 100),
		},
		breaks: take(cts(100), 0),
		passes: eager(0),
	},
	{
		rule: RuleID, name: "RECEIPT",
		before: []step{sent(&wire.EagerRTM{DC: true, SendID: 5}, 9)},
		breaks: take(&wire.Receipt{TxID: 4}, 0),
		passes: take(&wire.Receipt{TxID: 5}, 0),
	},
	{
		rule: RuleID, name: "RECEIPT twice",
		before: []step{sent(rta(wire.RTADCWrite, wire.OpSum, 8), 8), take(&wire.Receipt{TxID: 5}, 0)},
		breaks: take(&wire.Receipt{TxID: 5}, 0),
		passes: eager(0),
	},
	{
		rule: RuleID, name: "RECEIPT for what is read",
		before: []step{sent(longRead(0), 0)},
		breaks: take(&wire.Receipt{TxID: 5}, 0),
		passes: take(&wire.EOR{SendID: 5}, 0),
	},
	{
		rule: RuleID, name: "EOR for what is all runt",
		before: []step{sent(&wire.RuntReadRTM{MsgLength: 9, RuntLength: 9, SendID: 5}, 9), sent(longRead(1), 0), take(&wire.EOR{SendID: 5}, 0)},
		breaks: take(&wire.EOR{SendID: 5}, 0),
		passes: eager(0),
	},
	{
		rule: RuleID, name: "EOR after READ_NACK",
		before: []step{readable, sent(longRead(0), 0), take(&wire.ReadNACK{SendID: 5}, 0)},
		breaks: take(&wire.EOR{SendID: 5}, 0),
		passes: sent(longCTSMsg(0, true), 0),
	},
	{
		rule: RuleNACK, name: "of a write before 2.0", era: "1.22", mild: "2.0",
		before: []step{readable, sent(&wire.LongReadRTW{MsgLength: 5000, SendID: 5}, 0)},
		breaks: take(&wire.ReadNACK{SendID: 5}, 0),
		passes: take(&wire.EOR{SendID: 5}, 0),
	},
	{
		rule: RuleID, name: "ATOMRSP",
		before: []step{sent(rta(wire.RTAFetch, wire.OpSum, 8), 8)},
		breaks: take(&wire.ATOMRSP{RecvID: 5, SegLength: 8}, 8),
		passes: take(&wire.ATOMRSP{RecvID: 6, SegLength: 8}, 8),
	},
	{
		rule: RuleLengths, name: "ATOMRSP",
		before: []step{sent(rta(wire.RTACompare, wire.OpCSwap, 16), 32)},
		breaks: take(&wire.ATOMRSP{RecvID: 6, SegLength: 8}, 8),
		passes: take(&wire.ATOMRSP{RecvID: 6, SegLength: 16}, 16),
	},
}
