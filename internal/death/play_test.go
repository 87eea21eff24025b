package death

import (
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/efa/amo"
	"github.com/efactor/efactor/api/efatest"
)

// play is one operation between two sides, and how it is made to go by one subprotocol.
type play struct {
	proto   string // as the requester's completion has it
	variant string // what else is special about it
	dev     efatest.DeviceConfig
	set     func(*efa.ProtocolConfig)
	slow    bool             // acknowledgements are late, so that answers overtake them
	act     func(a, b *side) // gives the sides their deeds

	// fickle: something is canceled, so each outcome may be an error without a fault.
	fickle bool
}

func (p *play) String() string {
	if p.variant == "" {
		return p.proto
	}
	return p.proto + ", " + p.variant
}

// protocol is the settings of both sides.
func (p *play) protocol(probe, patience time.Duration) efa.ProtocolConfig {
	c := efa.ProtocolConfig{
		SendQueue: 16, RecvQueue: recvQueue, MaxMedium: 4096, MinRead: 16384, MinReadWrite: 16384,
		ReadSegment: 8192, Credits: 4, ProbeAfter: probe, PeerTimeout: patience, RNRInitial: 50 * time.Microsecond,
	}
	if p.set != nil {
		p.set(&c)
	}
	return c
}

// late is when a receive is posted that the message has to wait for.
const late = 200 * time.Microsecond

// message describes one that a sends and b receives.
type message struct {
	n      int
	level  efa.Level
	tagged bool
	lent   bool          // it lies in memory that the other device may read
	late   bool          // its receive is posted late
	plain  bool          // it is received into a plain slice
	cancel time.Duration // the sender cancels it
	drop   time.Duration // the receiver does
	revoke time.Duration // the sender closes the memory
}

func (m message) act(a, b *side) {
	buf, into := pattern(m.n, 1), bytesOf(b.buf, m.n)
	if m.lent {
		lent := bytesOf(a.buf, m.n)
		copy(lent, buf)
		buf = lent
	}
	if m.plain {
		into = make([]byte, m.n)
	}
	send := a.do(&deed{what: "send", cancel: m.cancel, post: func(t uint64) (efa.OpID, error) {
		return a.ep.PostSend(&efa.SendReq{To: a.to, Buf: buf, Level: m.level, Tagged: m.tagged, Tag: 5, Token: t})
	}})
	recv := b.do(&deed{what: "receive", cancel: m.drop, tagged: m.tagged, into: into, want: pattern(m.n, 1), post: func(t uint64) (efa.OpID, error) {
		return b.ep.PostRecv(&efa.RecvReq{From: b.to, Directed: true, Buf: into, Tagged: m.tagged, Tag: 5, Token: t})
	}})
	if m.revoke > 0 {
		a.do(&deed{what: "close memory", after: m.revoke, call: func() error { return a.buf.Close() }})
		recv.cancel = 3 * time.Millisecond
	}
	if m.late {
		recv.after = late
	}
	if m.cancel > 0 {
		recv.cancel = 3 * time.Millisecond // there may be nothing to receive
	}
	send.pair, recv.pair = recv, send
}

// write is one of a into b's memory, read one out of it.
type write struct {
	n      int
	level  efa.Level
	lent   bool
	cancel time.Duration
}

func (m write) act(a, b *side) {
	buf := pattern(m.n, 2)
	if m.lent {
		lent := bytesOf(a.buf, m.n)
		copy(lent, buf)
		buf = lent
	}
	at := b.at
	a.do(&deed{what: "write", cancel: m.cancel, post: func(t uint64) (efa.OpID, error) {
		return a.ep.PostWrite(&efa.WriteReq{To: a.to, At: at, Buf: buf, Level: m.level, Token: t})
	}})
}

type read struct {
	n      int
	cancel time.Duration
}

func (m read) act(a, b *side) {
	at, into := b.at, bytesOf(a.buf, m.n)
	a.do(&deed{what: "read", cancel: m.cancel, into: into, want: pattern(m.n, 3), post: func(t uint64) (efa.OpID, error) {
		return a.ep.PostRead(&efa.ReadReq{From: a.to, At: at, Buf: into, Token: t})
	}})
}

type update struct {
	form   amo.Form
	op     amo.Op
	level  efa.Level
	cancel time.Duration
}

func (m update) act(a, b *side) {
	at := b.at.Slice(0, 8)
	v, kind := efa.Elements([]uint64{7})
	req := efa.AtomicReq{To: a.to, At: at, Op: m.op, Type: kind, Form: m.form, Operand: v, Level: m.level}
	if m.form != amo.Update {
		req.Result = make([]byte, 8)
	}
	if m.form == amo.Compare {
		req.Compare = make([]byte, 8)
	}
	a.do(&deed{what: "atomic", cancel: m.cancel, post: func(t uint64) (efa.OpID, error) {
		req.Token = t
		return a.ep.PostAtomic(&req)
	}})
}

var (
	reads  = efatest.DeviceConfig{RDMARead: true, MaxRDMA: 8192}
	writes = efatest.DeviceConfig{RDMARead: true, RDMAWrite: true, MaxRDMA: 8192}
	keys   = efatest.DeviceConfig{RDMARead: true, MaxRDMA: 8192, LocalKeys: true}
)

func narrow(p *efa.ProtocolConfig) { p.SendQueue = 2 }
func runts(p *efa.ProtocolConfig)  { p.RuntSize = 2048 }
func noCopy(p *efa.ProtocolConfig) { p.DetachLimit = 1000 }
func canceled(p play) play         { p.fickle = true; return p }
func with(p play, v string) play   { p.variant = v; return p }

// plays are all of them.
func plays() []play {
	const small, middle, long, large = 100, 3000, 12000, 20000
	done := efa.Delivered
	soon, then, yet := 8*time.Microsecond, 40*time.Microsecond, 90*time.Microsecond
	list := []play{
		{proto: "eager", act: message{n: small}.act},
		{proto: "eager", variant: "tagged, late receive", act: message{n: small, tagged: true, late: true}.act},
		{proto: "medium", act: message{n: middle}.act},
		{proto: "medium", variant: "late receive", act: message{n: middle, late: true}.act},
		{proto: "long-CTS", act: message{n: long}.act},
		{proto: "long-CTS", variant: "late receive", act: message{n: long, late: true}.act},
		{proto: "long-read", dev: reads, act: message{n: large, lent: true}.act},
		{proto: "long-read", variant: "late receive", dev: reads, act: message{n: large, lent: true, late: true}.act},
		{proto: "long-CTS", variant: "after READ_NACK", dev: keys, act: message{n: large, lent: true, plain: true}.act},
		{proto: "runting read", dev: reads, set: runts, act: message{n: large, lent: true}.act},
		{proto: "runting read", variant: "late receive", dev: reads, set: runts, act: message{n: large, lent: true, late: true}.act},
		{proto: "DC eager", act: message{n: small, level: done}.act},
		{proto: "DC eager", variant: "late receive", act: message{n: small, level: done, late: true}.act},
		{proto: "DC medium", act: message{n: middle, level: done, tagged: true}.act},
		{proto: "DC long-CTS", act: message{n: long, level: done}.act},
		{proto: "medium", variant: "short send queue", set: narrow, act: message{n: middle}.act},
		{proto: "long-CTS", variant: "short send queue", set: narrow, act: message{n: long}.act},
		{proto: "runting read", variant: "late acknowledgements", slow: true, dev: reads, set: runts, act: message{n: large, lent: true}.act},
		{proto: "DC medium", variant: "late acknowledgements", slow: true, act: message{n: middle, level: done}.act},
		{proto: "eager write", act: write{n: small}.act},
		{proto: "long-CTS write", act: write{n: long}.act},
		{proto: "long-read write", dev: reads, act: write{n: large, lent: true}.act},
		{proto: "DC eager write", act: write{n: small, level: done}.act},
		{proto: "DC long-CTS write", act: write{n: long, level: done}.act},
		{proto: "direct write", dev: writes, act: write{n: large, lent: true}.act},
		{proto: "short read", act: read{n: small}.act},
		{proto: "long-CTS read", act: read{n: long}.act},
		{proto: "direct read", dev: reads, act: read{n: large}.act},
		{proto: "write atomic", act: update{form: amo.Update, op: amo.Sum}.act},
		{proto: "fetch atomic", act: update{form: amo.Fetch, op: amo.Sum}.act},
		{proto: "compare atomic", act: update{form: amo.Compare, op: amo.CompareSwap}.act},
		{proto: "DC write atomic", act: update{form: amo.Update, op: amo.Sum, level: done}.act},
	}
	for _, p := range []play{
		{proto: "DC eager", act: message{n: small, level: done, cancel: soon}.act},
		{proto: "long-CTS", act: message{n: long, cancel: then}.act},
		{proto: "long-CTS", set: noCopy, act: message{n: long, late: true, cancel: then}.act},
		{proto: "DC long-CTS", act: message{n: long, level: done, late: true, cancel: then}.act},
		{proto: "long-read", dev: reads, act: message{n: large, lent: true, late: true, cancel: then}.act},
		{proto: "long-CTS write", act: write{n: long, cancel: then}.act},
		{proto: "long-CTS read", act: read{n: long, cancel: then}.act},
		{proto: "direct read", dev: reads, act: read{n: large, cancel: soon}.act},
		{proto: "fetch atomic", act: update{form: amo.Fetch, op: amo.Sum, cancel: soon}.act},
	} {
		list = append(list, canceled(with(p, "canceled by the requester")))
	}
	for _, p := range []play{
		{proto: "long-CTS", act: message{n: long, drop: yet}.act},
		{proto: "long-read", dev: reads, act: message{n: large, lent: true, drop: yet}.act},
	} {
		list = append(list, canceled(with(p, "canceled by the target")))
	}
	for _, p := range []play{
		{proto: "long-read", dev: reads, act: message{n: large, lent: true, revoke: then}.act},
		{proto: "long-read", dev: reads, act: message{n: large, lent: true, late: true, cancel: soon, revoke: then}.act},
	} {
		list = append(list, canceled(with(p, "memory closed")))
	}
	return list
}
