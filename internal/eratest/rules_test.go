package eratest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/era"
	"github.com/efactor/efactor/wire"
)

const mtu = 1000

var (
	peer = wire.MakeRawAddr([16]byte{0xfe, 0x80, 15: 1}, 7, 99)
	own  = wire.MakeRawAddr([16]byte{0xfe, 0x80, 15: 2}, 8, 77)
	// The optional headers of a request before and after HANDSHAKE.
	intro = wire.Options{HasRawAddr: true, RawAddr: peer}
	known = wire.Options{HasConnID: true, ConnID: peer.ConnID()}
	place = wire.RMAIOV{Addr: 0x1000, Len: 5000, Key: 3}
)

// step is a packet on its way, with n bytes of data. raw takes the place of p.
type step struct {
	out bool
	p   wire.Packet
	n   int
	raw []byte
}

func take(p wire.Packet, n int) step { return step{p: p, n: n} }
func sent(p wire.Packet, n int) step { return step{out: true, p: p, n: n} }
func raw(b ...byte) step             { return step{raw: b} }

// greet is the endpoint's HANDSHAKE, which every release since 1.20 sends with
// these features, and more.
func greet(more ...wire.Feature) step {
	f := wire.MakeFeatures(wire.FeatureDeliveryComplete, wire.FeatureConnIDHeader, wire.FeatureRunt, wire.FeatureReadNACK)
	for _, m := range more {
		f.Set(m)
	}
	return sent(&wire.Handshake{Features: f, HasConnID: true, ConnID: own.ConnID()}, 0)
}

func (s step) bytes() []byte {
	if s.raw != nil {
		return s.raw
	}
	return append(s.p.Append(nil), make([]byte, s.n)...)
}

func (s step) tell(j *Judge) error {
	if s.out {
		return j.Sent(s.bytes(), peer)
	}
	return j.Take(s.bytes(), wire.MakeRawAddr(peer.GID(), peer.QPN(), 0))
}

// ruleCase is the smallest sequence that breaks a rule, and its neighbour that does
// not: breaks and passes follow the same steps.
type ruleCase struct {
	rule   Rule
	name   string
	era    string // 2.3.1 if empty
	before []step
	breaks step
	passes step

	// mild is the era whose endpoint bears what breaks, if there is one.
	mild string
}

var ruleCases = func() (all []ruleCase) {
	for _, part := range [][]ruleCase{formCases, featureCases, requestCases, orderCases, dataCases, answerCases} {
		all = append(all, part...)
	}
	return all
}()

func (c *ruleCase) run(t *testing.T, release string, last step) error {
	t.Helper()
	if release == "" {
		release = "2.3.1"
	}
	p, ok := era.ByName(release)
	require.True(t, ok, release)
	j := NewJudge(p, mtu)
	for i, s := range c.before {
		require.NoError(t, s.tell(j), "step %d", i)
	}
	return last.tell(j)
}

func TestRules(t *testing.T) {
	tested := map[Rule]bool{}
	for i := range ruleCases {
		c := &ruleCases[i]
		tested[c.rule] = true
		t.Run(string(c.rule)+"/"+c.name, func(t *testing.T) {
			requireFault(t, c.rule, c.run(t, c.era, c.breaks))
			require.NoError(t, c.run(t, c.era, c.passes), "the neighbour")
			if c.mild != "" {
				require.NoError(t, c.run(t, c.mild, c.breaks), c.mild)
			}
		})
	}
	for _, r := range []Rule{
		RuleVersion, RuleType, RuleForm, RuleFeature, RuleConnID, RuleRawAddr, RuleIntroduction, RuleConstant,
		RuleUserQP, RuleHandshake, RuleAhead, RuleDuplicate, RuleSegment, RuleEarlyData, RuleWindow, RuleGrant,
		RuleFirstWindow, RuleID, RuleNACK, RuleLengths, RuleCount, RuleAtomic,
	} {
		require.True(t, tested[r], "no case of rule %s", r)
	}
}

var formCases = []ruleCase{
	{
		rule: RuleVersion, name: "3",
		breaks: raw(byte(wire.TypeCTS), 3, 0, 0),
		passes: step{raw: (&wire.EagerRTM{Options: intro}).Append(nil)},
	},
	{
		rule: RuleType, name: "retired",
		breaks: raw(byte(wire.TypeRTS), 4, 0, 0),
		passes: take(&wire.EagerRTM{Options: intro}, 0),
	},
	{
		rule: RuleType, name: "never sent",
		breaks: raw(byte(wire.TypeReadRTR), 4, 0, 0),
		passes: take(&wire.EagerRTM{Options: intro}, 0),
	},
	{
		rule: RuleType, name: "DC before 1.12", era: "1.10", mild: "1.12",
		breaks: take(&wire.EagerRTM{Options: intro, DC: true}, 1),
		passes: take(&wire.EagerRTM{Options: intro}, 1),
	},
	{
		rule: RuleType, name: "RUNTREAD before 1.16", era: "1.14", mild: "1.16",
		breaks: take(runt(0), 100),
		passes: take(longRead(0), 0),
	},
	{
		rule: RuleType, name: "READ_NACK before 1.20", era: "1.18", mild: "1.20",
		before: []step{sent(longRead(0), 0)},
		breaks: take(&wire.ReadNACK{SendID: 5}, 0),
		passes: take(&wire.EOR{SendID: 5}, 0),
	},
	{
		rule: RuleType, name: "PEER_ERROR until 2.6", era: "2.6", mild: "2.7",
		before: []step{sent(longRead(0), 0)},
		breaks: take(&wire.PeerError{OpID: 5}, 0),
		passes: take(&wire.EOR{SendID: 5}, 0),
	},
	{
		rule: RuleForm, name: "short base",
		breaks: raw(64, 4, 0),
		passes: take(&wire.EagerRTM{Options: intro}, 0),
	},
	{
		rule: RuleForm, name: "short header",
		before: []step{greet()},
		breaks: raw(byte(wire.TypeEagerMsgRTM), 4, 4, 0, 0, 0, 0),
		passes: raw(byte(wire.TypeEagerMsgRTM), 4, 4, 0, 0, 0, 0, 0),
	},
	{
		rule: RuleRawAddr, name: "longer than any release's",
		breaks: step{raw: longAddr(8)},
		passes: step{raw: longAddr(4)},
	},
	{
		rule: RuleIntroduction, name: "before HANDSHAKE",
		breaks: take(&wire.EagerRTM{}, 1),
		passes: take(&wire.EagerRTM{Options: intro}, 1),
	},
	{
		rule: RuleIntroduction, name: "HANDSHAKE went to another",
		before: []step{take(&wire.EagerRTM{Options: intro}, 1), greet()},
		breaks: take(&wire.EagerRTM{Options: wire.Options{HasConnID: true, ConnID: 98}, MsgID: 1}, 1),
		passes: take(&wire.EagerRTM{Options: known, MsgID: 1}, 1),
	},
	{
		rule: RuleHandshake, name: "the second", era: "1.10", mild: "1.12",
		before: []step{take(&wire.Handshake{}, 0)},
		breaks: take(&wire.Handshake{}, 0),
		passes: take(&wire.EagerRTM{Options: intro}, 0),
	},
}

// longAddr is an eager message with this much padding after its raw address.
func longAddr(padding int) []byte {
	b := []byte{byte(wire.TypeEagerMsgRTM), 4, 5, 0, 0, 0, 0, 0, byte(wire.RawAddrLen + padding), 0, 0, 0}
	b = append(b, peer[:]...)
	return append(b, make([]byte, padding)...)
}

// longRead is a message of 5000 bytes to be read, of send_id 5.
func longRead(msgID uint32) *wire.LongReadRTM {
	return &wire.LongReadRTM{
		Options: intro, MsgID: msgID, MsgLength: 5000, SendID: 5,
		ReadIOVCount: 1, ReadIOV: [wire.MaxIOV]wire.RMAIOV{place},
	}
}

// runt is a packet of such a message of which 200 bytes are sent.
func runt(off uint64) *wire.RuntReadRTM {
	return &wire.RuntReadRTM{
		Options: intro, MsgLength: 5000, SendID: 5, SegOffset: off, RuntLength: 200,
		ReadIOVCount: 1, ReadIOV: [wire.MaxIOV]wire.RMAIOV{place},
	}
}
