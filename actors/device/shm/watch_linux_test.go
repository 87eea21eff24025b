//go:build linux

package shm

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

func init() {
	roles["flood"] = flood
	roles["hold"] = hold
	roles["stand"] = stand
}

// parcel fills b with packet n of a flood: number, length and a checksum.
func parcel(b []byte, n uint64) []byte {
	for i := range b {
		b[i] = byte(uint64(i)*n>>3 + n)
	}
	binary.LittleEndian.PutUint64(b[4:], n)
	binary.LittleEndian.PutUint32(b[12:], uint32(len(b)))
	binary.LittleEndian.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
	return b
}

func parcelOf(b []byte) (n uint64, whole bool) {
	if len(b) < 16 || binary.LittleEndian.Uint32(b[12:]) != uint32(len(b)) ||
		binary.LittleEndian.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[4:]), true
}

// flood sends parcels of all sizes without end.
func flood(args []string) error {
	qkey, _ := strconv.Atoi(args[1])
	_, q, ah, err := attach(args[0], device.QPConfig{QKey: uint32(qkey), RNRRetry: 7, SQDepth: 4})
	if err != nil {
		return err
	}
	say(q.QPN())
	end := orphaned()
	var c [16]device.Completion
	buf := make([]byte, DefaultMTU)
	for n := uint64(1); ; n++ {
		size := 16 + int(n*n*37%uint64(inlineMax))
		if n%3 != 0 {
			size = 16 + int(n*n*7919%uint64(len(buf)-16))
		}
		wr := device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey, Payload: parcel(buf[:size], n)}
		for q.PostSend(&wr) != nil {
			q.Doorbell()
			for _, e := range c[:q.Poll(c[:])] {
				if e.Op == device.OpSend && e.Status != device.StatusOK {
					return fmt.Errorf("send: %v", e.Status)
				}
			}
			select {
			case <-end:
				return nil
			default:
				runtime.Gosched()
			}
		}
	}
}

// receiverOf checks what floods bring.
type receiverOf struct {
	testing.TB
	q    device.QP
	seen map[uint16]map[uint64]bool // by sender and number; of those that live, or whose end is not looked at yet
	gone map[uint16]uint32          // their Q_Keys
	live map[uint16]bool            // those that may send: a number may be reused by another process
	c    [16]device.Completion
}

func (r *receiverOf) until(cond func() bool) {
	var slot [1]int32
	for !cond() {
		for _, e := range r.c[:r.q.Poll(r.c[:])] {
			require.True(r, r.live[e.SrcQPN], "%+v of nobody who sends", e)
			if e.Op == device.OpGone {
				require.NotContains(r, r.gone, e.SrcQPN)
				r.gone[e.SrcQPN] = e.QKey
				continue
			}
			require.NotContains(r, r.gone, e.SrcQPN, "a packet after its sender's end was told")
			n, whole := parcelOf(r.q.RecvBytes(int(e.ID))[:e.Len])
			require.True(r, whole, "%d bytes of %d", e.Len, e.SrcQPN)
			seen := r.seen[e.SrcQPN]
			if seen == nil {
				seen = map[uint64]bool{}
				r.seen[e.SrcQPN] = seen
			}
			require.False(r, seen[n], "packet %d came twice", n)
			seen[n] = true
			slot[0] = int32(e.ID)
			r.q.PostRecv(slot[:])
		}
		runtime.Gosched()
	}
}

// Senders are killed in the middle of a flood, wherever they are. The receiver
// hears of it, loses no slot, and a third party goes on sending all the time.
func TestKillSenders(t *testing.T) {
	dir := fabricDir(t)
	d, q, _, err := attach(dir, device.QPConfig{QPN: testQPN, QKey: testQKey, RQDepth: 24})
	require.NoError(t, err)
	r := &receiverOf{TB: t, q: q, seen: map[uint16]map[uint64]bool{}, gone: map[uint16]uint32{}, live: map[uint16]bool{}}
	flood := func(qkey int) *process {
		p := start(t, "flood", dir, qkey)
		require.False(t, r.live[p.qpn])
		r.live[p.qpn] = true
		return p
	}
	steady := flood(1)
	const victims = 3
	rounds := 12
	if testenv.Short() {
		rounds = 4
	}
	port := portOf(t, d)
	for round := range rounds {
		var ps []*process
		for i := range victims {
			ps = append(ps, flood(1000+round*victims+i))
		}
		r.until(func() bool { return len(r.seen) == 1+victims })
		heard := len(r.seen[steady.qpn])
		for _, p := range ps {
			p.kill()
		}
		r.until(func() bool { return len(r.gone) == victims && len(r.seen[steady.qpn]) > heard+100 })
		for i, p := range ps {
			require.Equal(t, uint32(1000+round*victims+i), r.gone[p.qpn])
			delete(r.live, p.qpn)
			delete(r.seen, p.qpn)
			delete(r.gone, p.qpn)
		}
	}
	steady.kill()
	r.until(func() bool { return len(r.gone) == 1 })
	t.Logf("%d claims of the dead taken back", port.reclaimed)

	require.Empty(t, port.rx.aside)
	require.Zero(t, port.bad)
	for i := range port.rx.senders {
		require.Zero(t, port.rx.senders[i].who.Load())
	}
	require.Empty(t, port.rx.later)
	posts := 0
	for _, p := range port.rx.own {
		if p.hasSlot() {
			posts++
		}
	}
	require.Equal(t, q.RecvSlots(), posts)
	require.NoError(t, q.Close())
	require.NoError(t, d.Close())
}

// hold receives until it ends.
func hold(args []string) error {
	qkey, _ := strconv.Atoi(args[1])
	_, q, _, err := attach(args[0], device.QPConfig{QPN: testQPN, QKey: uint32(qkey)})
	if err != nil {
		return err
	}
	say(q.QPN())
	end := orphaned()
	var c [16]device.Completion
	for {
		for _, e := range c[:q.Poll(c[:])] {
			q.PostRecv([]int32{int32(e.ID)})
		}
		select {
		case <-end:
			return q.Close()
		default:
			runtime.Gosched()
		}
	}
}

// A receiver is killed: sends end with a status that says so, OpGone comes, and
// its number serves a new process with another Q_Key.
func TestKillReceiver(t *testing.T) {
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{QKey: 5, RNRRetry: 7})
	var gone *device.Completion
	send := func(qkey uint32) device.Status {
		wr := device.SendWR{AH: ah, QPN: testQPN, QKey: qkey, Payload: make([]byte, 100)}
		require.NoError(t, q.PostSend(&wr))
		q.Doorbell()
		st := device.Status(255)
		for st == 255 {
			pollOnce(q, func(e device.Completion) {
				if e.Op == device.OpGone {
					gone = &e
				} else {
					st = e.Status
				}
			})
		}
		return st
	}
	for qkey := uint32(100); qkey < 104; qkey++ {
		require.True(t, send(qkey).Gone(), "before")
		p := start(t, "hold", dir, qkey)
		require.Equal(t, device.StatusBadDestQPN, send(qkey-1), "the predecessor's Q_Key")
		for range 1000 {
			require.Equal(t, device.StatusOK, send(qkey))
		}
		gone = nil
		p.kill()
		from := clock.System.Now()
		for send(qkey) == device.StatusOK {
			runtime.Gosched()
		}
		for gone == nil {
			pollOnce(q, func(e device.Completion) {
				if e.Op == device.OpGone {
					gone = &e
				}
			})
		}
		t.Logf("noticed after %v", clock.System.Now().Sub(from))
		gone.SrcGID = device.GID{} // means nothing beside an AH
		require.Equal(t, device.Completion{Op: device.OpGone, AH: ah, SrcQPN: testQPN, QKey: qkey}, *gone)
	}
	// An orderly end is no death, and said so.
	p := start(t, "hold", dir, 200)
	require.Equal(t, device.StatusOK, send(200))
	gone = nil
	p.end(t)
	require.Equal(t, device.StatusBadDestQPN, send(200))
	require.True(t, gone != nil && gone.Left)
}

// stand sends one packet up to a step and stands still there.
func stand(args []string) error {
	at, _ := strconv.Atoi(args[1])
	d, q, ah, err := attach(args[0], device.QPConfig{})
	if err != nil {
		return err
	}
	for p := range d.(*attachment).watch.ports {
		l, st := p.connect(&device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey})
		if st != device.StatusOK {
			return fmt.Errorf("connect: %v", st)
		}
		l.ctl.state.Store(parked) // the owner has woken, and sleeps again
		op := l.begin(&device.SendWR{Header: parcel(make([]byte, 100), 1), Begins: true}, 0)
		for op.at != step(at) {
			l.step(&op)
		}
	}
	say(q.QPN())
	<-orphaned()
	return nil
}

// A sender is killed before each of its steps in turn, while the receiver sleeps.
// It wakes, and has all its slots again.
func TestKillAtStep(t *testing.T) {
	for at := stepSelf; at <= stepOver; at++ {
		if at == stepPosted || at == stepTail || at == stepDry {
			continue // a first look at a posted receive does not come there
		}
		t.Run(fmt.Sprintf("step=%d", at), func(t *testing.T) {
			dir := fabricDir(t)
			q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN, QKey: testQKey, RQDepth: 2})
			p := portBehind(q)
			require.True(t, q.Arm())
			other := start(t, "stand", dir, at)
			p.disarm() // it rang when it entered,
			p.answer()
			require.Eventually(t, func() bool { return watches(p.dev.watch) }, testenv.Hang, time.Millisecond)
			if !q.Arm() { // and we sleep again, unless its packet is there
				p.armed = true
				p.rx.park()
			}
			other.kill()
			ps := []unix.PollFd{{Fd: int32(q.FDs()[0]), Events: unix.POLLIN}}
			n, err := unix.Poll(ps, 60_000)
			require.NoError(t, err)
			require.Equal(t, 1, n, "nobody rang")
			got := 0
			for p.rx.senders[0].who.Load() != 0 {
				pollOnce(q, func(e device.Completion) {
					if e.Op != device.OpRecv {
						return
					}
					_, whole := parcelOf(q.RecvBytes(int(e.ID))[:e.Len])
					require.True(t, whole)
					got++
					q.PostRecv([]int32{int32(e.ID)})
				})
			}
			require.Equal(t, at > stepPublish, got == 1)
			require.Equal(t, at == stepCopy || at == stepPublish, p.reclaimed == 1)
			require.Empty(t, p.rx.aside)
			third, ah := mustAttach(t, dir, device.QPConfig{})
			for range 2 { // both slots
				require.Equal(t, device.StatusOK, statusOf(t, third, &device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey}))
			}
			require.Equal(t, device.StatusRNR, statusOf(t, third, &device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey}))
		})
	}
}

func init() { roles["several"] = several }

// watches reports whether the watcher knows peers.
func watches(w *watcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.peers) > 0
}

// look is a round that asks everything.
func (w *watcher) look() {
	w.mu.Lock()
	for id, pe := range w.peers {
		w.doubted[id] = pe
	}
	for p := range w.ports {
		p.entered.Store(true)
	}
	w.mu.Unlock()
	w.round()
}

// size returns how many regions are mapped.
func (vs *mappings) size() int { return len(*vs.byKey.Load()) }

// rests reports whether the watcher waits for nothing but news.
func rests(w *watcher) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.due
}

// TestStopEndsRounds: no round comes once the descriptor of the news is closed, whose number may be another's then.
func TestStopEndsRounds(t *testing.T) {
	f, err := openDirectory(fabricDir(t))
	require.NoError(t, err)
	defer f.close()
	w, err := f.startWatcher(newMappings(f, nil))
	require.NoError(t, err)
	ended := make(chan bool)
	go func() {
		<-w.done
		w.mu.Lock()
		defer w.mu.Unlock()
		ended <- w.closed
	}()
	w.mu.Lock()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		w.stop()
	}()
	runtime.Gosched()
	w.mu.Unlock()
	require.True(t, <-ended)
	<-stopped
}

// TestIdleDeviceSleeps: a device has no timer set, whether its queue pairs are polled or sleep, also if it has
// peers. The end of a peer is news, after which it rests again.
func TestIdleDeviceSleeps(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN, QKey: testQKey})
	w := portBehind(q).dev.watch
	resting := func() bool { return rests(w) }
	p := start(t, "flood", dir, 1)
	got := false
	for !got {
		pollOnce(q, func(e device.Completion) { got = got || e.Op == device.OpRecv })
	}
	require.Eventually(t, func() bool { return watches(w) }, testenv.Hang, time.Millisecond)
	require.Eventually(t, resting, testenv.Hang, time.Millisecond)
	p.kill()
	gone := false
	for !gone {
		pollOnce(q, func(e device.Completion) {
			switch e.Op {
			case device.OpRecv:
				q.PostRecv([]int32{int32(e.ID)})
			case device.OpGone:
				gone = true
			}
		})
	}
	require.Eventually(t, resting, testenv.Hang, time.Millisecond)
	require.False(t, watches(w))
}

// TestDeathIsNews: a survivor hears of a death whether it has sent or received, and polls or sleeps, and
// has no timer set before; within 200 ms where that can be judged.
func TestDeathIsNews(t *testing.T) {
	for _, role := range []string{"flood", "hold"} {
		for _, sleeps := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, sleeps=%v", role, sleeps), func(t *testing.T) {
				dir := fabricDir(t)
				var q device.QP
				gone, got := false, false
				take := func(e device.Completion) {
					gone = gone || e.Op == device.OpGone
					if got = got || e.Op == device.OpRecv; e.Op == device.OpRecv {
						q.PostRecv([]int32{int32(e.ID)})
					}
				}
				qpn := map[string]uint16{"flood": testQPN}[role]
				q, ah := mustAttach(t, dir, device.QPConfig{QPN: qpn, QKey: testQKey})
				w := portBehind(q).dev.watch
				p := start(t, role, dir, testQKey)
				if role == "flood" {
					for !got {
						pollOnce(q, take)
					}
				} else {
					require.Equal(t, device.StatusOK, statusOf(t, q, &device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey}))
				}
				require.Eventually(t, func() bool { return watches(w) && rests(w) }, testenv.Hang, time.Millisecond)
				require.NoError(t, p.cmd.Process.Signal(unix.SIGSTOP)) // so that nothing comes any more
				sleep := func() {
					for sleeps && !q.Arm() {
						pollOnce(q, take)
					}
				}
				sleep()
				began := clock.System.Now()
				p.kill()
				for !gone {
					if sleeps {
						n, err := unix.Poll([]unix.PollFd{{Fd: int32(q.FDs()[0]), Events: unix.POLLIN}}, int(testenv.Hang.Milliseconds()))
						require.NoError(t, err)
						require.Equal(t, 1, n)
					}
					pollOnce(q, take)
					sleep()
				}
				after := clock.System.Now().Sub(began)
				t.Logf("noticed after %v", after)
				require.True(t, testenv.Short() || after < 200*time.Millisecond)
			})
		}
	}
}

// TestInheritedBell: while another process has a dead one's bell, its death is no news. The probe that
// calls Pulse finds it out.
func TestInheritedBell(t *testing.T) {
	dir := fabricDir(t)
	q, ah := mustAttach(t, dir, device.QPConfig{QKey: 5})
	p := start(t, "hold", dir, 7)
	require.Equal(t, device.StatusOK, statusOf(t, q, &device.SendWR{AH: ah, QPN: testQPN, QKey: 7}))
	port := portBehind(q)
	bell, err := port.dev.directory.openDoorbell(port.links.get(testQPN).id.gen(), unix.O_RDONLY)
	require.NoError(t, err)
	defer unix.Close(bell)
	p.kill()
	gone := false
	take := func(e device.Completion) { gone = gone || e.Op == device.OpGone }
	for range 1000 {
		pollOnce(q, take)
	}
	require.False(t, gone)
	_, ok := q.Pulse(ah, testQPN)
	require.True(t, ok, "nothing is known yet")
	for !gone {
		pollOnce(q, take)
	}
	_, ok = q.Pulse(ah, testQPN)
	require.False(t, ok)
}

// TestPulseOfSleeper: a process that sleeps answers, and one that polls and gets nothing.
func TestPulseOfSleeper(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN})
	other, ah := mustAttach(t, dir, device.QPConfig{})
	require.Equal(t, device.StatusOK, statusOf(t, other, &device.SendWR{AH: ah, QPN: testQPN}))
	for _, sleeps := range []bool{true, false} {
		for sleeps && !q.Arm() {
			pollOnce(q, func(device.Completion) {})
		}
		before, _ := other.Pulse(ah, testQPN)
		require.True(t, !sleeps || readable(t, q.FDs()))
		now, _ := other.Pulse(ah, testQPN)
		require.Equal(t, before, now, "it does not run")
		for range 2 * patienceOne {
			pollOnce(q, func(device.Completion) {})
		}
		now, _ = other.Pulse(ah, testQPN)
		require.NotEqual(t, before, now)
	}
}

// several has two queue pairs, an unfinished one and a region, sends one packet by the first
// and stands still.
func several(args []string) error {
	d, q, ah, err := attach(args[0], device.QPConfig{})
	if err != nil {
		return err
	}
	if _, err := d.OpenQP(device.QPConfig{}); err != nil {
		return err
	}
	if _, err := d.Alloc(1<<20, remoteAll); err != nil {
		return err
	}
	if err := os.WriteFile(args[0]+"/"+newName(77), nil, 0o600); err != nil {
		return err
	}
	if err := q.PostSend(&device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey, Payload: make([]byte, 8)}); err != nil {
		return err
	}
	q.Doorbell()
	say(q.QPN())
	<-orphaned()
	return nil
}

// TestNeighborRemovesFilesOfTheDead: a process that was killed has left files. A process that
// had packets from one of its queue pairs removes all of them.
func TestNeighborRemovesFilesOfTheDead(t *testing.T) {
	dir := fabricDir(t)
	q, _ := mustAttach(t, dir, device.QPConfig{QPN: testQPN, QKey: testQKey})
	ours := names(t, dir)
	require.Len(t, ours, 2, "segment and bell")
	p := start(t, "several", dir)
	gone := false
	take := func(e device.Completion) { gone = gone || e.Op == device.OpGone && e.SrcQPN == p.qpn }
	pollOnce(q, take)
	require.Greater(t, len(names(t, dir)), len(ours)+4)
	p.kill()
	for !gone {
		pollOnce(q, take)
	}
	require.Eventually(t, func() bool { return slices.Equal(ours, names(t, dir)) }, time.Minute, time.Millisecond)
}
