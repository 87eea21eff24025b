package device_test

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/shard"
)

// fakeQP is a queue pair of which the test makes the completions.
type fakeQP struct {
	device.QP
	slots  int
	sent   []device.SendWR
	posted []int32
	comps  []device.Completion
	bells  int
	refuse error
	over   bool // what is prompt is over at once
	closed bool
}

func (q *fakeQP) RecvSlots() int       { return q.slots }
func (q *fakeQP) RecvBytes(int) []byte { return make([]byte, 64) }
func (q *fakeQP) PostRecv(s []int32)   { q.posted = append(q.posted, s...) }
func (q *fakeQP) Doorbell()            { q.bells++ }
func (q *fakeQP) Arm() bool            { return true }
func (q *fakeQP) FDs() []int           { return nil }
func (q *fakeQP) Close() error         { q.closed = true; return nil }

func (q *fakeQP) PostSend(wr *device.SendWR) error {
	if q.refuse == nil {
		q.sent = append(q.sent, *wr)
		wr.Over = wr.Prompt && q.over
	}
	return q.refuse
}

func (q *fakeQP) Poll(c []device.Completion) int {
	n := copy(c, q.comps)
	q.comps = q.comps[n:]
	return n
}

// ear is an actor that keeps the messages it receives.
type ear struct {
	ref   shard.Ref
	heard []any
}

func (e *ear) Receive(ctx actor.Context) {
	switch ctx.Message().(type) {
	case *actor.Started, *actor.Stopping, *actor.Stopped:
	default:
		e.heard = append(e.heard, ctx.Message())
	}
}

type rig struct {
	t     *testing.T
	sh    *shard.Shard
	qp    *fakeQP
	q     *device.Queue
	owner *ear
	peer  *ear
}

func (r *rig) Route(device.AH, uint16) shard.Ref { return r.peer.ref }
func (r *rig) Deliver(p *device.RecvPkt)         { r.sh.Call(r.peer.ref, p.Arrived()) }

func newRig(t *testing.T, sq, rq int) *rig {
	sh, err := shard.New(shard.Config{External: true, Seed: 1})
	require.NoError(t, err)
	require.True(t, sh.Adopt())
	r := &rig{t: t, sh: sh, qp: &fakeQP{slots: rq}, owner: &ear{}, peer: &ear{}}
	for _, e := range []*ear{r.owner, r.peer} {
		e.ref, err = sh.Spawn("", func() actor.Actor { return e })
		require.NoError(t, err)
	}
	r.q = device.NewQueue(device.QueueConfig{Shard: sh, QP: r.qp, SQ: sq, RQ: rq, Router: r, Refill: 8})
	ref, err := sh.Spawn("", func() actor.Actor { return r.q })
	require.NoError(t, err)
	sh.AddPoller(ref, r.q)
	t.Cleanup(func() {
		sh.Release()
		require.NoError(t, sh.Close())
		require.True(t, r.qp.closed)
	})
	r.run()
	return r
}

func (r *rig) run() {
	for r.sh.Turn() > 0 {
	}
}

func (r *rig) post() *device.Pke {
	p := r.q.Alloc()
	require.NotNil(r.t, p)
	p.Fill(append(p.Header(), 1, 2, 3), []byte("payload"))
	p.Owner, p.Peer = r.owner.ref, r.peer.ref
	require.NoError(r.t, r.q.Post(p))
	return p
}

func (r *rig) complete(id uint64, s device.Status) {
	r.qp.comps = append(r.qp.comps, device.Completion{Op: device.OpSend, ID: id, Status: s})
	r.run()
}

// TestQueueCompletions: success goes to the owner, whatever else to the peer, and
// what nobody posted to nobody.
func TestQueueCompletions(t *testing.T) {
	r := newRig(t, 4, 16)
	require.Len(t, r.qp.posted, 16, "all receives are posted at the start")
	a, b := r.post(), r.post()
	r.run()
	require.Equal(t, 2, r.q.Room())
	r.complete(r.qp.sent[0].ID, device.StatusOK)
	require.Same(t, a, r.owner.heard[0].(*device.SendDone).Pke)
	r.complete(r.qp.sent[1].ID, device.StatusRNR)
	pr := r.peer.heard[0].(*device.SendProblem)
	require.Same(t, b, pr.Pke)
	require.Equal(t, device.StatusRNR, pr.Status)

	r.complete(r.qp.sent[0].ID, device.StatusOK) // again
	r.complete(99, device.StatusOK)
	require.Len(t, r.owner.heard, 1)
	require.Len(t, r.peer.heard, 1)

	require.Equal(t, 2, r.q.Room(), "an entry counts until it is freed")
	r.q.Free(a)
	r.q.Free(b)
	require.Equal(t, 4, r.q.Room())
}

// TestQueueWaiters: actors that wait for room hear of it when there is some, control
// packets first, the others in the order of their coming.
// TestQueuePrompt: what is over at post is nobody's news, and its entry the owner's.
func TestQueuePrompt(t *testing.T) {
	r := newRig(t, 2, 4)
	fill := func(watch bool) *device.Pke {
		p := r.q.Alloc()
		p.Fill(append(p.Header(), 1), nil)
		p.Owner, p.Peer, p.Watch = r.owner.ref, r.peer.ref, watch
		return p
	}
	for _, c := range []struct{ over, watch, want bool }{
		{true, false, true}, {false, false, false}, {true, true, false},
	} {
		r.qp.over = c.over
		p := fill(c.watch)
		over, err := r.q.PostPrompt(p, true)
		require.NoError(t, err)
		require.Equal(t, c.want, over)
		if over {
			r.complete(0, device.StatusOK) // a driver's fault
			require.Empty(t, r.owner.heard)
			require.EqualValues(t, 1, r.q.Counters.SendDone)
			r.q.Free(p)
			continue
		}
		r.complete(0, device.StatusOK)
		require.Len(t, append(r.owner.heard, r.peer.heard...), 1)
		r.owner.heard, r.peer.heard = nil, nil
		r.q.Free(p)
	}
	require.Equal(t, 2, r.q.Room())

	// A driver without room after all: the end is reported as always.
	r.qp.refuse, r.qp.over = device.ErrQueueFull, true
	p := fill(false)
	over, err := r.q.PostPrompt(p, true)
	require.NoError(t, err)
	require.False(t, over)
	r.qp.refuse = nil
	r.run()
	r.sh.Wake()
	r.complete(1, device.StatusOK) // nobody's: it makes the queue look
	require.Len(t, r.qp.sent, 4)
	require.False(t, r.qp.sent[3].Prompt)
	r.complete(0, device.StatusOK)
	require.Len(t, r.owner.heard, 1)
}

func TestQueueWaiters(t *testing.T) {
	r := newRig(t, 2, 4)
	a, b := r.post(), r.post()
	require.Nil(t, r.q.Alloc())
	data1 := &device.SlotWait{To: r.owner.ref}
	data2 := &device.SlotWait{To: r.owner.ref}
	control := &device.SlotWait{To: r.owner.ref, Control: true}
	for _, w := range []*device.SlotWait{data1, data2, data1, control} {
		r.q.AwaitSlot(w)
	}
	r.run()
	require.Empty(t, r.owner.heard)
	r.q.Free(a)
	r.run()
	require.Equal(t, []any{control, data1, data2}, r.owner.heard, "room for one that nobody takes is offered on")
	r.q.Free(b)
	r.run()
	require.Len(t, r.owner.heard, 3)
}

// TestQueueGiveRoom: a caller that gives room before Poll does it in its place.
func TestQueueGiveRoom(t *testing.T) {
	r := newRig(t, 2, 4)
	a, b := r.post(), r.post()
	first, second := &device.SlotWait{To: r.owner.ref}, &device.SlotWait{To: r.owner.ref}
	r.q.AwaitSlot(first)
	r.q.AwaitSlot(second)
	require.Zero(t, r.q.GiveRoom(), "there is none")
	r.q.Free(a)
	require.Equal(t, 1, r.q.GiveRoom())
	r.q.Poll(nil)
	require.NotNil(t, r.q.Alloc())
	r.run()
	require.Equal(t, []any{first}, r.owner.heard, "room is given once")
	r.q.Free(b)
	r.run()
	require.Equal(t, []any{first, second}, r.owner.heard)
}

// TestQueueRecv: a received packet reaches the peer that the router names; its slot
// goes back in batches, all of them before the queue sleeps.
func TestQueueRecv(t *testing.T) {
	r := newRig(t, 2, 16)
	r.qp.posted = nil
	recv := func(slot uint64) *device.RecvPkt {
		r.qp.comps = append(r.qp.comps, device.Completion{Op: device.OpRecv, ID: slot, Len: 10, AH: 3, SrcQPN: 4})
		r.run()
		return r.peer.heard[len(r.peer.heard)-1].(*device.Arrived).Pkt
	}
	p := recv(5)
	require.Len(t, p.View.Bytes(), 10)
	require.EqualValues(t, 3, p.AH)
	require.EqualValues(t, 4, p.QPN)
	p.Release()
	r.run()
	require.Empty(t, r.qp.posted, "one slot alone is not worth it")
	for slot := range uint64(5) {
		recv(slot).Release()
	}
	require.True(t, r.q.Arm())
	require.ElementsMatch(t, []int32{0, 1, 2, 3, 4, 5}, r.qp.posted)

	// A driver that reports nonsense does no harm.
	r.qp.comps = []device.Completion{{Op: device.OpRecv, ID: 16}, {Op: device.OpRecv, ID: 1 << 60}}
	n := len(r.peer.heard)
	r.run()
	require.Len(t, r.peer.heard, n)
}

// TestQueueThrottle: a throttled queue keeps slots back and lets a trickle in.
func TestQueueThrottle(t *testing.T) {
	r := newRig(t, 2, 16)
	r.qp.posted = nil
	r.q.Throttle(true)
	for slot := range uint64(16) {
		r.qp.comps = append(r.qp.comps, device.Completion{Op: device.OpRecv, ID: slot, Len: 1})
	}
	r.run()
	for _, m := range r.peer.heard {
		m.(*device.Arrived).Pkt.Release()
	}
	require.True(t, r.q.Arm())
	require.Empty(t, r.qp.posted)
	r.q.Trickle(3)
	require.True(t, r.q.Arm())
	require.Equal(t, []int32{0, 1, 2}, r.qp.posted, "those that were kept longest, so that each path has some in turn")
	r.q.Throttle(false)
	require.True(t, r.q.Arm())
	require.Len(t, r.qp.posted, 16)
}

// TestStatusText: every status has a text, and those that mean that there is no
// such endpoint are known as such.
func TestStatusText(t *testing.T) {
	gone := map[device.Status]bool{8: true, 9: true, 13: true, 14: true, 15: true, 18: true}
	for s := device.Status(0); s < 20; s++ {
		require.Equal(t, s == 16 || s == 17 || s == 19, strings.HasPrefix(s.String(), "status "), "%d", s)
		require.Equal(t, gone[s], s.Gone(), s.String())
	}
	require.Equal(t, "status 77", device.Status(77).String())
}

// TestQueueFatal: the end of the queue pair is reported to the actor that deals with strangers,
// the endpoint.
func TestQueueFatal(t *testing.T) {
	r := newRig(t, 2, 4)
	r.post()
	r.qp.comps = []device.Completion{{Op: device.OpFatal, Status: device.StatusQPInternal}}
	r.run()
	require.Len(t, r.peer.heard, 1, "it is the router's for UnknownAH")
	require.Equal(t, device.StatusQPInternal, r.peer.heard[0].(*device.Fatal).Status)
}
