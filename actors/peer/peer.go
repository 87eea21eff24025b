package peer

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/trail"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/runtime/shard"
)

// Peer is the actor for one remote endpoint.
//
//   - It owns the msg_ids of both directions, the reorder window, what is known
//     of the peer's features, RNR and back-off, and the line of operations that
//     wait for their turn.
//   - The device queue sends it packets and packet problems; the endpoint
//     submits operations; operations ask it to be resumed.
//   - It sends RTMs in order to the endpoint, other packets to their
//     operations, grants to operations, and posts HANDSHAKE and probes itself.
//   - It waits for room in the send queue, and for its timers; never blocks.
//   - When it fails or is removed, everything in progress with it fails. If it may come
//     back, its next packet takes it back (life.go); else its packets are dropped.
type Peer struct {
	env  *Env
	link *Link

	// Sending.
	nextID      uint32
	answered    bool  // HANDSHAKE is out
	asked       bool  // for HANDSHAKE, on behalf of the line
	lineTail    *Turn // of load.line
	slotWait    device.SlotWait
	blockedTail *Blocked // of load.blocked
	hsWait      device.SlotWait
	refusedTail *device.Pke // of load.refused
	backoff     Backoff
	backoffOver *backoffOver // made at the first back-off

	// Receiving.
	window Window
	multi  map[uint32]*Multi
	nacked map[uint32]shard.Ref // by msg_id: the operation that waits for a replacement

	aborted *abortedIDs // made at the first PEER_ERROR for a message

	// Watching.
	watchMsg watchTick
	probed   clock.Time // when the first probe went out since the peer was heard
	ended    uint64     // packets that the device was done with when no probe could go out
}

// Spawn makes the actor for the peer that l describes, by way of spawn.
func (e *Env) Spawn(l *Link, spawn func(actor.Producer) shard.Ref) {
	p := newPeer(e, l)
	l.Peer = spawn(func() actor.Actor { return p })
	p.slotWait.To, p.hsWait.To, p.hsWait.Control = l.Peer, l.Peer, true
}

func newPeer(env *Env, l *Link) *Peer {
	l.env = env
	l.heard = env.now()
	l.floor = env.Config.FirstMsgID
	l.Self = l.Addr == l.path().Addr
	l.chooseHeaders()
	l.Span = env.Trail.Next()
	env.Trail.Put(l.Span, trail.PeerBegin, 0, 0, 0)
	env.Trail.Locate(l.Span, l.Path, &l.Addr)
	l.of = &Peer{
		env: env, link: l,
		nextID:  env.Config.FirstMsgID,
		window:  NewWindow(env.Config.RecvWindow, env.Config.FirstMsgID),
		backoff: Backoff{Initial: env.Config.RNRInitial, Max: env.Config.RNRMax},
	}
	if env.Config.Unordered {
		l.of.window.KeepNoOrder()
	}
	return l.of
}

// Receive is the peer's message switch.
func (p *Peer) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *device.Arrived:
		p.onArrived(m.Pkt)
	case *Submit:
		m.Turn.sent = false
		if pke := p.admit(m.Turn); pke != nil {
			m.Turn.grant.Pke = pke
			p.env.Sh.Call(m.Turn.Op, &m.Turn.grant)
		}
	case *device.SendProblem:
		p.onProblem(m.Pke, m.Status)
	case *device.SlotWait:
		p.onRoom(m)
	case *Blocked:
		p.onBlocked(m)
	case *backoffOver:
		p.endBackoff()
	case *lineOpen:
		p.serveLine()
	case *gotThrough:
		p.endBackoff()
	case *watchTick:
		p.onWatch()
	case *knocks:
		p.solicit()
	case *Withdraw:
		p.onWithdraw(m)
	case *Nacked:
		p.onNacked(m)
	case *device.Written:
		p.onWritten(m)
	case *device.Refused:
		p.onRefused(m)
	case *failNotified:
		p.onAllNotified()
	case *Remove:
		if m.Away && !p.link.MayReturn() {
			return
		}
		if p.fail(m.Err, m.Tell); m.Lost && !p.link.Buried() {
			p.link.needOwed().lost = true
		}
	case *device.Gone:
		p.onGone(m)
	case *actor.Restarting:
		// A panic in a handler: what was in progress cannot be trusted.
		p.env.Trail.Put(p.link.Span, trail.Restarted, 0, 0, 0)
		p.link.load.early = p.window.kept
		p.fail(ErrRestarted, true)
	case *actor.Stopped:
		p.fail(ErrStopped, false)
	}
}

// onRoom: the send queue has room again, for the line or for HANDSHAKE.
func (p *Peer) onRoom(w *device.SlotWait) {
	if w == &p.hsWait {
		p.sendHandshake()
		return
	}
	if d := p.link.load.owed; d != nil && w == &d.room {
		d.send(p)
		return
	}
	p.resendRefused()
	if p.link.load.flags.has(questioned) {
		p.solicit()
	}
	p.link.load.owed.send(p) // it may have waited for a probe
	p.serveLine()
}

// post gives a packet of the peer's own to the device.
func (p *Peer) post(pke *device.Pke, header []byte) bool {
	pke.Fill(header, nil)
	pke.Span = p.link.Span
	p.link.Address(pke, shard.Ref{})
	pke.Watch = true // its end is a sign of life
	p.env.Counters.PacketsSent[header[0]]++
	if err := p.env.Q.Post(pke); err != nil {
		p.env.LogOf(p.link).Warn("post", "err", err)
		p.env.Q.Free(pke)
		return false
	}
	return true
}
