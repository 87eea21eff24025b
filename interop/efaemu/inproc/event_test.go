//go:build linux

package inproc_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// word is a doorbell, or the first word of a completion.
func word(b []byte, off uint32) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&b[off : off+4 : off+4][0]))
}

// settle lets the engine do all that there is to do.
func (r *rig) settle() {
	for range 1000 {
		r.eng.Step()
	}
}

// talker has a queue pair that sends to itself.
type talker struct {
	*queues
	cq   cqMade
	qp   qpMade
	ch   int
	mr   abi.RegMRResp
	ah   uint16
	maps [][]byte // as mapQueues has them
	sent uint16
}

const (
	ringMap = iota
	rqMap
	llqMap
	cqDoorbell
	rqDoorbell
	sqDoorbell
)

func newTalker(t *testing.T, r *rig) *talker {
	q := &queues{client: r.ready(t), r: r}
	q.pd = must(q.client.pd())
	k := &talker{queues: q, ch: q.channel()}
	require.NoError(t, unix.SetNonblock(k.ch, true))
	k.cq = must(q.createCQ(r, cqWant{
		userHandle: 0xabcdef, cmd: abi.CreateCQ{Flags: abi.CQChannel},
		more: []attr{obj(abi.CreateCQChannel, uint64(k.ch))},
	}))
	q.cq = k.cq.handle
	k.qp = q.qp(qpWant{})
	k.maps = q.mapQueues(&k.cq, &k.qp)
	k.mr = must(q.client.mr(q.pd, abi.AccessLocalWrite))
	q.bring(k.qp.handle, abi.QPRTS)
	_, ah, err := q.client.ah(q.pd, r.info.GID)
	require.NoError(t, err)
	k.ah = ah.Number
	return k
}

// send posts a receive and an inline send, and returns when both have completed.
func (k *talker) send(text string) {
	k.t.Helper()
	d := abi.RxDesc{Addr: addr(k.memory()), ReqID: k.sent, Length: 64, LKey: k.mr.LKey, First: true, Last: true}
	copy(k.maps[rqMap][int(k.sent%16)*abi.RxDescLen:], d.Append(nil))
	w := abi.WQE{
		ReqID: uint64(k.sent), Op: abi.WorkSend, Inline: true, Meta: true, First: true, Last: true, CompReq: true,
		Phase: k.sent/16%2 == 1, DestQPN: uint16(k.qp.number), AH: k.ah, QKey: 1, Length: uint16(len(text)), Data: []byte(text),
	}
	copy(k.maps[llqMap][int(k.qp.LLQOff)+int(k.sent%16)*64:], w.Append(nil, 64))
	k.sent++
	word(k.maps[rqDoorbell], k.qp.RQDoorbellOff).Store(uint32(k.sent))
	word(k.maps[sqDoorbell], k.qp.SQDoorbellOff).Store(uint32(k.sent))
	k.r.settle()
	last := 2*int(k.sent) - 1
	phase := abi.CQEWord(word(k.maps[ringMap], uint32(last%64*32)).Load()).Phase()
	require.Equal(k.t, last/64%2 == 0, phase, "both have completed")
}

// arm asks for an event after the completions so far.
func (k *talker) arm(sn uint8) {
	d := abi.CQDoorbell{Consumed: 2 * k.sent, CmdSN: sn, Arm: true}
	word(k.maps[cqDoorbell], k.cq.DoorbellOff).Store(d.Word())
	k.r.settle()
}

// event reads one; false: there is none.
func (k *talker) event() (uint64, bool) {
	k.t.Helper()
	var b [abi.CompEventLen]byte
	n, err := unix.Read(k.ch, b[:])
	if errors.Is(err, unix.EAGAIN) {
		return 0, false
	}
	require.NoError(k.t, err)
	require.Equal(k.t, abi.CompEventLen, n)
	return le.Uint64(b[:]), true
}

func (k *talker) done() {
	for _, b := range k.maps {
		require.NoError(k.t, k.f.Munmap(b))
	}
	require.NoError(k.t, unix.Close(k.ch))
	k.close()
}

// A message goes through all of it, and an armed queue yields an event.
func TestEvents(t *testing.T) {
	r := newRig(t, named(t, "efa"))
	k := newTalker(t, r)
	k.send("hello")
	assert.Equal(t, "hello", string(k.memory()[:5]))
	var cqe abi.CQE
	require.NoError(t, cqe.Parse(k.maps[ringMap][32:64]))
	assert.Zero(t, cqe.Status)
	_, ok := k.event()
	assert.False(t, ok, "not armed")

	k.arm(0)
	k.send("again")
	h, ok := k.event()
	require.True(t, ok)
	assert.EqualValues(t, 0xabcdef, h)
	_, ok = k.event()
	assert.False(t, ok, "one for each time that it is armed")

	require.NoError(t, k.destroy(abi.ObjectQP, k.qp.handle))
	resp, err := k.destroyCQ(k.cq.handle)
	require.NoError(t, err)
	assert.EqualValues(t, 1, resp.CompEvents)
	k.done()
}

// An event that the program hasn't read goes with its queue, and doesn't count:
// libibverbs waits in the destruction until as many were acknowledged as were read.
func TestEventsUnread(t *testing.T) {
	r := newRig(t, named(t, "efa"))
	k := newTalker(t, r)
	k.arm(0)
	k.send("one")
	_, ok := k.event()
	require.True(t, ok)
	k.arm(1)
	k.send("two")
	require.NoError(t, k.destroy(abi.ObjectQP, k.qp.handle))
	resp, err := k.destroyCQ(k.cq.handle)
	require.NoError(t, err)
	assert.EqualValues(t, 1, resp.CompEvents)
	_, ok = k.event()
	assert.False(t, ok)
	k.done()
}

// A program makes and closes channels for ever; only those in use are kept.
func TestChannelsComeAndGo(t *testing.T) {
	r := newRig(t, named(t, "efa"))
	c := r.ready(t)
	before := descriptors(t)
	kept := c.channel()
	_ = must(c.createCQ(r, cqWant{cmd: abi.CreateCQ{Flags: abi.CQChannel}, more: []attr{obj(abi.CreateCQChannel, uint64(kept))}}))
	require.NoError(t, unix.Close(kept))
	for range 50 {
		require.NoError(t, unix.Close(c.channel()))
		require.NoError(t, unix.Close(c.async()))
	}
	live := r.Stats()
	assert.Equal(t, 2, live.Channels)
	assert.Equal(t, 1, live.AsyncFiles)
	assert.Equal(t, before+3, descriptors(t))
	c.close()
}
