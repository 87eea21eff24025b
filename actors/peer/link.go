package peer

import (
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Unlisted is the handle of a peer that is in no address vector (libfabric's
// FI_ADDR_NOTAVAIL among implicit peers).
const Unlisted = ^uint64(0) - 1

// Link is what operations and the endpoint see of a peer; all of them are on one shard. The
// peer writes the exported fields, except those that say that another does. The others are
// written by the peer and by the methods below, which operations and the endpoint call. No
// method reaches into the peer's own state but Submit, which enters the peer, Unposted, which takes
// back what Submit gave, Snapshot, which only reads it, and Join and Await, which start the watch.
type Link struct {
	Peer   shard.Ref
	Handle uint64 // in the address vector, or Unlisted; the endpoint writes it
	Age    uint64 // of the insertion in the address vector that it is as new as; the endpoint writes it
	Addr   wire.RawAddr
	AH     device.AH
	QPN    uint16
	QKey   uint32 // the peer's connid (§4.4)

	Span uint64 // in Env.Trail, 0 if there is none

	// The optional headers of REQ packets to the peer (§4.3, §4.4), and what the header of a
	// request without others and its data may take up in all.
	Room                  int32
	HasRawAddr, HasConnID bool

	Headerless  bool // it takes data without headers only, at UserQP
	Handshaken  bool // HANDSHAKE came; Features is what it said
	Features    wire.Features
	Path        uint8 // index in Env.Paths
	Self        bool  // it is this endpoint
	hasFamily   bool
	lineStalled bool // the line waits for requests that are under way
	watched     bool // the peer looks after operations in progress
	place       Place
	Err         error // why the peer has failed; nil: it has not, or it is back

	beat       uint32
	UserQP     wire.UserRecvQP
	Family     uint32    // device_version of HANDSHAKE
	keysWrong  int32     // accesses with keys that name nothing
	floor      uint32    // before this msg_id everything has arrived
	holdBackAt int32     // of load.charged, in units of holdBackStep: where to ask the device again
	Multipath  Multipath // operations make them

	env     *Env
	of      *Peer
	heard   clock.Time // last sign of life
	reached clock.Time // when our device last completed something; see listen, which keeps beat
	load    load
	fences  *fences // made at the first operation that waits for others
}

// load is all that is in progress with a peer, kept of it, or due to it, and its life. That of an
// idle peer is zero.
type load struct {
	members *Member         // operations in progress
	line    *Turn           // operations that wait for their turn
	refused *device.Pke     // packets that met RNR and are to go out again
	blocked *Blocked        // operations that wait until packets may be posted
	owed    *pendingControl // control packets that go out before anything new
	orphans *orphans        // operations that ended and that it will ask for
	charged int64           // bytes that are kept of it
	runt    int             // bytes of runting reads under way
	out     int32           // requests with a msg_id under way
	putOff  int32           // packets under way that it has put off: it holds us back
	early   uint32          // packets that wait for their turn in the order of messages
	parts   uint32          // messages of several packets, or that it is to send in another way, of which some are to come
	awaited int32           // posted receives that only it can satisfy
	flags   flags
	life    Life
}

// flags are what is unusual about a peer that lives.
type flags uint8

const (
	backingOff flags = 1 << iota // RNR: post nothing
	probing                      // a probe is under way
	answering                    // HANDSHAKE is to go out, as soon as there is room
	heldBack                     // it is in Env.HeldBack
	overLimit                    // it is over PeerMemory, or was and is not yet well below
	contested                    // newcomers at its queue pair wait
	onTrial                      // one of them is on trial
	questioned                   // it is to say whether it is there, see Link.Ask
)

func (f *flags) set(x flags)     { *f |= x }
func (f *flags) clear(x flags)   { *f &^= x }
func (f flags) has(x flags) bool { return f&x != 0 }

func (f *flags) put(x flags, on bool) {
	if f.clear(x); on {
		f.set(x)
	}
}

// Idle reports whether nothing is in progress with the peer, and nothing of its is kept here: then
// it can be evicted. A peer that has failed and may come back can be idle, too.
func (l *Link) Idle() bool { return l.load == load{life: l.load.life & Away} }

// Contest says that newcomers at the peer's queue pair wait, of whom one may be on trial. Meanwhile the peer is not evicted, and one
// on trial may have sent a packet that does not say who sent it: such a packet goes to the endpoint.
func (l *Link) Contest(trial bool) {
	l.load.flags.set(contested)
	l.load.flags.put(onTrial, trial)
}

// Uncontest ends what Contest and Ask began.
func (l *Link) Uncontest() { l.load.flags.clear(contested | onTrial | questioned) }

// MayReturn reports whether the peer has failed and may come back.
func (l *Link) MayReturn() bool { return l.load.life >= Failing && l.load.life <= Away }

// Buried reports whether the peer has failed for good.
func (l *Link) Buried() bool { return l.load.life == Buried }

// Place is where the endpoint has the peer.
func (l *Link) Place() Place { return l.place }

// Runt is how many bytes of runting reads are under way to the peer; AddRunt changes it.
func (l *Link) Runt() int { return l.load.runt }

// AddRunt adds n, which may be negative.
func (l *Link) AddRunt(n int) { l.load.runt += n }

// chooseHeaders says which optional headers a REQ packet has: the raw address until
// the peer's HANDSHAKE came or if it wants constant headers (§4.3), then the
// connid if it asked for that (§4.4).
func (l *Link) chooseHeaders() {
	l.HasRawAddr = !l.Handshaken || l.Features.Has(wire.FeatureConstantHeader)
	l.HasConnID = !l.HasRawAddr && (l.WantsConnID() || l.env.Config.Habits.AlwaysConnID)
	l.Room = int32(l.env.MTU)
	if l.HasRawAddr {
		l.Room -= wire.RawAddrHdrLen
	}
	if l.HasConnID {
		l.Room -= wire.ConnIDHdrLen
	}
	if l.Headerless = l.Features.Has(wire.FeatureUserRecvQP); l.Headerless {
		l.Room = 0
	}
}

// Options sets the optional headers as told: HasRawAddr and HasConnID, as they were when the
// operation began.
func (l *Link) Options(o *wire.Options, rawAddr, connID bool) {
	o.HasRawAddr, o.HasConnID = rawAddr, connID
	if rawAddr {
		o.RawAddr = l.path().Addr
	}
	if connID {
		o.ConnID = l.env.ConnID
	}
}

// Address makes p go to the peer, with ref as owner.
func (l *Link) Address(p *device.Pke, owner shard.Ref) {
	p.Owner, p.Peer, p.Watch = owner, l.Peer, l.BackingOff()
	p.To(l.AH, l.QPN, l.QKey)
}

// PayloadPlace is [Peer.PayloadPlace].
func (l *Link) PayloadPlace(head []byte, size int) (dst []byte, later bool) {
	return l.of.PayloadPlace(head, size)
}

// Deliver has the peer handle a packet of its. Precondition: the caller has entered the peer.
func (l *Link) Deliver(r *device.RecvPkt) { l.of.onArrived(r) }

// Known reports whether the peer's features are known: from its HANDSHAKE, or since
// all peers are said to be alike.
func (l *Link) Known() bool { return l.Handshaken || l.Self || l.env.Config.Homogeneous }

// Can reports whether a feature may be used with the peer: both sides have it.
func (l *Link) Can(f wire.Feature) bool {
	ours := l.path().Features.Has(f)
	if l.Self || l.env.Config.Homogeneous {
		return ours
	}
	return ours && l.Handshaken && l.Features.Has(f)
}

// TakesAbort reports whether the peer gets PEER_ERROR for an operation that is over. What
// upstream has of it is for messages; for a request for memory (memory) it goes to
// efactor on its software devices alone, whose HANDSHAKE says that they have no device_version.
// It is nothing that may be taken for granted of a peer.
func (l *Link) TakesAbort(memory bool) bool {
	switch ours := l.path().Features.Has(wire.FeaturePeerError); {
	case !ours, l.Self:
		return ours
	case !l.Handshaken || !l.Features.Has(wire.FeaturePeerError):
		return false
	case memory:
		return l.hasFamily && l.Family == 0
	default:
		return !l.env.Config.Homogeneous
	}
}

// MayTakeAbort is TakesAbort of a peer that may not have said yet what it knows.
func (l *Link) MayTakeAbort(memory bool) bool {
	if l.Handshaken || l.Self || !memory && l.env.Config.Homogeneous {
		return l.TakesAbort(memory)
	}
	return l.path().Features.Has(wire.FeaturePeerError)
}

// CanRDMA reports whether RDMA reads (or writes) work between the devices: both have
// them, and they are of one family (§2.1.1: the first EFA device reads only from
// its own kind).
func (l *Link) CanRDMA(f wire.Feature) bool {
	return l.Can(f) && (l.Self || !l.hasFamily || (l.Family == firstEFA) == (l.path().DeviceID == firstEFA))
}

// firstEFA is the vendor part id of the first EFA device.
const firstEFA = 0xefa0

// WantsConnID reports whether packets with room for it carry our connid.
func (l *Link) WantsConnID() bool {
	return l.Features.Has(wire.FeatureConnIDHeader)
}

// Open reports whether data may be posted: CTSDATA waits for HANDSHAKE, everything
// for the end of back-off.
func (l *Link) Open() bool { return l.Handshaken && !l.BackingOff() }

// Posted counts a request with a msg_id that goes out, Arrived one that got there.
func (l *Link) Posted() { l.load.out++ }

// Arrived counts a request with a msg_id that got there.
func (l *Link) Arrived() {
	if l.load.out--; l.load.out == 0 && l.lineStalled {
		l.freeLine()
	}
}

func (l *Link) freeLine() {
	l.lineStalled = false
	l.env.Sh.Tell(l.Peer, &lineFree)
}

// maxAhead is how many messages a sender may run ahead of one that has not arrived:
// libfabric until 1.22 ends its process when one comes that is 16384 ahead of the
// one whose turn it is, for instance since that one meets RNR again and again.
const maxAhead = 8192

// mayRun reports whether id may be given out, which is maxAhead or more ahead of the floor.
func (l *Link) mayRun(id uint32) bool {
	if l.load.out > 0 && !l.TakesAbort(false) {
		l.lineStalled = true
		return false
	}
	l.floor = id
	return true
}

// path is where the peer reaches this endpoint.
func (l *Link) path() *Path { return &l.env.Paths[l.Path] }

// Env is the endpoint's.
func (l *Link) Env() *Env { return l.env }

// URI is the peer's address as efa.Address has it. Its scheme is the kind of the device that
// leads to the peer.
func (l *Link) URI() string { return l.env.URI(&l.Addr, l.Path) }

// NameOf is what the address vector calls the peer, "" if it is not in it or has no name.
func (l *Link) NameOf() string { return l.env.name(l.Handle) }

// HostIDs are the host_ids of the peers that have sent one (§2.1.1), apart from their links:
// most send none. It belongs to the endpoint's shard.
type HostIDs map[*Link]uint64

// HostID is the host_id in the peer's HANDSHAKE, 0 if there was none.
func (l *Link) HostID() uint64 { return l.env.HostIDs[l] }

// noteHostID keeps what HANDSHAKE said.
func (l *Link) noteHostID(id uint64) {
	if l.env.HostIDs == nil {
		l.env.HostIDs = make(HostIDs)
	}
	l.env.HostIDs[l] = id
}

// ForgetHostID drops what is known of a peer that is stopped.
func (l *Link) ForgetHostID() { delete(l.env.HostIDs, l) }

// Member is an operation's entry in the list of those in progress with a peer;
// they fail with it.
type Member struct {
	Op         shard.Ref
	turn       *Turn // nil: it is no operation of ours, but one of the peer's
	link       *Link
	prev, next *Member

	// Since is when an operation last got on that the peer must answer without
	// its application's help: it fails after PeerTimeout. 0: no such operation.
	since clock.Time
	line  bool   // since counts the wait for HANDSHAKE only
	use   uint32 // counts the operations that had the entry, see [Fail]
}

// Bound begins to wait for an answer of the peer's.
func (m *Member) Bound(l *Link) { m.since, m.line = max(l.env.now(), 1), false }

// BoundInLine begins to wait for the peer's HANDSHAKE, if that has not come.
func (m *Member) BoundInLine(l *Link) {
	if !l.Known() {
		m.Bound(l)
		m.line = true
	}
}

// GotOn notes that an operation that waits for an answer is getting it.
func (m *Member) GotOn(l *Link) {
	if m.since != 0 {
		m.since = max(l.env.now(), 1)
	}
}

// Join enters m into l's list and starts the watch over the peer.
func (l *Link) Join(m *Member, op shard.Ref) {
	if m.link != nil {
		return
	}
	m.Op, m.link = op, l
	m.use = max(m.use+1, 1)
	m.prev, m.next = nil, l.load.members
	if l.load.members != nil {
		l.load.members.prev = m
	}
	l.load.members = m
	l.watch()
}

// Leave takes m out of the list it is in, if any.
func (m *Member) Leave() {
	m.since = 0
	l := m.link
	if l == nil {
		return
	}
	if m.prev != nil {
		m.prev.next = m.next
	} else {
		l.load.members = m.next
	}
	if m.next != nil {
		m.next.prev = m.prev
	}
	m.link, m.prev, m.next = nil, nil, nil
}

func (l *Link) watch() {
	if !l.watched {
		l.of.startWatch()
	}
}

// Await counts a posted receive that names the peer: it ends with it, so the peer
// is watched. Awaited takes it back.
func (l *Link) Await() {
	l.load.awaited++
	l.watch()
}

// Awaited ends what Await began.
func (l *Link) Awaited() { l.load.awaited-- }

// Busy reports whether operations are in progress or wait for the peer.
func (l *Link) Busy() bool { return l.load.members != nil || l.load.awaited > 0 }

// failMembers tells every operation in progress that the peer has failed, the newest first.
func (l *Link) failMembers(err error) {
	for m := l.load.members; m != nil; m = m.next {
		l.env.Sh.Tell(m.Op, &Fail{Link: l, use: m.use, Err: err})
	}
}

// Snapshot is a remote endpoint at one moment. As JSON, durations are nanoseconds.
type Snapshot struct {
	Address    string        `json:"address"`        // as efa.Address has it, on Device
	Name       string        `json:"name,omitempty"` // in the address vector
	Device     string        `json:"device"`         // that carries to it
	Handle     *uint64       `json:"handle"`         // in the address vector, null: not in it
	State      string        `json:"state"`          // "new", "ready", "backing off", "failed"
	Handshake  string        `json:"handshake"`      // "none", "sent", "received", "both"
	Features   []string      `json:"features,omitempty"`
	HostID     uint64        `json:"host_id,omitempty,string"` // as its HANDSHAKE has it; 0: it sent none
	Silent     time.Duration `json:"silent"`                   // since it last gave a sign of life
	BackingOff time.Duration `json:"backing_off,omitempty"`
	Operations int           `json:"operations"` // in progress
	InLine     int           `json:"in_line"`    // that wait for their turn
	Resends    int           `json:"resends"`    // packets that wait for the end of back-off
	NextID     uint32        `json:"next_msg_id"`
	ExpectedID uint32        `json:"expected_msg_id"`
	OutOfOrder int           `json:"out_of_order"` // packets that wait for it
	HeldBytes  int64         `json:"held_bytes"`
	Err        string        `json:"error,omitempty"`
}

// Snapshot describes the peer.
func (l *Link) Snapshot() Snapshot {
	p, now := l.of, l.env.now()
	s := Snapshot{
		Address: l.URI(), Name: l.NameOf(), Device: l.path().Device, State: l.state(), Handshake: l.shaken(), Silent: l.silent(now),
		HostID: l.HostID(), NextID: p.nextID, ExpectedID: p.window.Expected(), OutOfOrder: p.window.Kept(), HeldBytes: l.load.charged,
	}
	if l.Handle != Unlisted {
		h := l.Handle
		s.Handle = &h
	}
	if l.Handshaken {
		for _, f := range l.Features.List() {
			s.Features = append(s.Features, f.String())
		}
	}
	if l.BackingOff() {
		s.BackingOff = now.Sub(p.backoffOver.since)
	}
	for m := l.load.members; m != nil; m = m.next {
		s.Operations++
	}
	for t := p.link.load.line; t != nil; t = t.next {
		s.InLine++
	}
	for pke := p.link.load.refused; pke != nil; pke = pke.Next {
		s.Resends++
	}
	if l.Err != nil {
		s.Err = l.Err.Error()
	}
	return s
}

func (l *Link) state() string {
	switch {
	case l.Err != nil:
		return "failed"
	case l.load.putOff > 0:
		return "holds us back"
	case l.BackingOff():
		return "backing off"
	case l.Known():
		return "ready"
	default:
		return "new"
	}
}

func (l *Link) shaken() string {
	switch sent := l.of.answered; {
	case sent && l.Handshaken:
		return "both"
	case sent:
		return "sent"
	case l.Handshaken:
		return "received"
	default:
		return "none"
	}
}

// silent is for how long nothing was heard of the peer.
func (l *Link) silent(now clock.Time) time.Duration {
	if l.path().Pulse {
		return now.Sub(l.heard)
	}
	return now.Sub(max(l.heard, l.reached))
}
