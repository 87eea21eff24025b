//go:build linux

package shm

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

func init() { roles["lender"] = lender }

// lender lends plain memory, a pattern of maxRDMA bytes, to the parent's queue pair, args[1], at
// each packet of the parent's. It says the window's key and address, or two zeroes if the parent cannot read it.
// args[2] "hidden": the kernel denies others access to the process from the beginning;
// "later": it does when the third loan has been made.
func lender(args []string) error {
	if args[2] == "hidden" {
		if err := hide(); err != nil {
			return err
		}
	}
	d, err := Open(Config{Dir: args[0], Files: args[2] != "open", PlainReads: true}) // sealed memory of one that hides cannot be had
	if err != nil {
		return err
	}
	q, err := d.OpenQP(device.QPConfig{QKey: testQKey})
	if err != nil {
		return err
	}
	ah, err := q.CreateAH(d.Info().GID)
	if err != nil {
		return err
	}
	for i := range q.RecvSlots() {
		q.PostRecv([]int32{int32(i)})
	}
	parent, err := strconv.ParseUint(args[1], 10, 16)
	if err != nil {
		return err
	}
	say(q.QPN())
	mem, end := pattern(maxRDMA), orphaned()
	defer runtime.KeepAlive(mem)
	for loans := 0; ; {
		select {
		case <-end:
			return nil
		default:
		}
		pollOnce(q, func(e device.Completion) {
			if e.Op != device.OpRecv || err != nil {
				return
			}
			q.PostRecv([]int32{int32(e.ID)})
			if loans++; loans == 1 { // before that it knows no way to the parent
				err = q.PostSend(&device.SendWR{AH: ah, QPN: uint16(parent), Payload: []byte("hello")})
			}
			key, addr, refused := q.LendPlain(ah, uint16(parent), mem)
			if loans == 3 && args[2] == "later" {
				err = hide()
			}
			if refused != nil {
				key, addr = 0, 0
			}
			say(key, addr)
		})
		if err != nil {
			return err
		}
	}
}

// borrower reads what a lender lends.
type borrower struct {
	testing.TB
	*process
	q   device.QP
	ah  device.AH
	log *records
}

func newBorrower(t testing.TB, qc device.QPConfig, how string) *borrower {
	t.Helper()
	b := &borrower{TB: t, log: &records{Handler: slog.NewTextHandler(io.Discard, nil)}}
	dir := fabricDir(t)
	d, err := Open(Config{Dir: dir, Logger: slog.New(b.log), Files: how != "open", AnyReader: true, PlainReads: true})
	require.NoError(t, err)
	b.q, err = d.OpenQP(qc)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, b.q.Close())
		require.NoError(t, d.Close())
	})
	for i := range b.q.RecvSlots() {
		b.q.PostRecv([]int32{int32(i)})
	}
	b.ah, err = b.q.CreateAH(d.Info().GID)
	require.NoError(t, err)
	b.process = start(t, "lender", dir, b.q.QPN(), how)
	return b
}

// borrow asks for a loan; a key of 0: it is refused.
func (b *borrower) borrow() (key, addr uint64) {
	b.Helper()
	st := statusOf(b, b.q, &device.SendWR{AH: b.ah, QPN: b.qpn, QKey: testQKey, Payload: []byte("please")})
	require.Equal(b, device.StatusOK, st)
	_, err := fmt.Sscan(b.line(b), &key, &addr)
	require.NoError(b, err)
	return key, addr
}

func (b *borrower) read(local []byte, key, addr uint64) device.Status {
	return statusOf(b, b.q, &device.SendWR{
		AH: b.ah, QPN: b.qpn, QKey: testQKey, Kind: device.WRRead, Payload: local, RKey: key, Remote: addr,
	})
}

// TestPlain: what another process lends of its plain memory is read, and nothing else: no byte
// before it or behind, no other key, and nothing is written.
func TestPlain(t *testing.T) {
	b := newBorrower(t, device.QPConfig{ReadsPlain: true}, "open")
	for range 3 {
		key, addr := b.borrow()
		require.NotZero(t, key)
		local := make([]byte, maxRDMA)
		require.Equal(t, device.StatusOK, b.read(local, key, addr))
		require.Equal(t, pattern(maxRDMA), local)
		require.Equal(t, device.StatusOK, b.read(local[:100], key, addr+7))
		require.Equal(t, pattern(200)[7:107], local[:100])
		require.Equal(t, device.StatusOK, b.read(local[:0], key, addr+maxRDMA))
		for _, from := range []uint64{addr - 1, addr + 1, 0, 1 << 63} {
			require.Equal(t, device.StatusBadAddress, b.read(local, key, from))
		}
		require.Equal(t, device.StatusBadAddress, b.read(local, key+maxWindows, addr))
		require.Equal(t, device.StatusBadAddress, b.read(local, uint64(uint32(key)), addr), "a key has more than its place")
		st := statusOf(t, b.q, &device.SendWR{
			AH: b.ah, QPN: b.qpn, QKey: testQKey, Kind: device.WRWrite, Payload: local, RKey: key, Remote: addr,
		})
		require.Equal(t, device.StatusBadAddress, st)
	}
	require.Empty(t, b.log.lines)
	b.end(t)
}

// TestPlainNotWanted: nothing is lent to a queue pair that has not asked for it, such as the
// emulator's.
func TestPlainNotWanted(t *testing.T) {
	b := newBorrower(t, device.QPConfig{}, "open")
	key, _ := b.borrow()
	require.Zero(t, key)
	b.end(t)
}

// TestPlainDenied: where the kernel denies access from the beginning, nothing is lent. Where it
// does so later one read ends with a status of its own, and nothing is lent after it. The log
// says either, once.
func TestPlainDenied(t *testing.T) {
	runtime.LockOSThread() // and never unlock: the thread ends with its rights
	require.True(t, dropPtrace(t))
	t.Run("at once", func(t *testing.T) {
		runtime.LockOSThread()
		require.True(t, dropPtrace(t))
		b := newBorrower(t, device.QPConfig{ReadsPlain: true}, "hidden")
		for range 3 {
			key, _ := b.borrow()
			require.Zero(t, key)
		}
		require.Len(t, b.log.lines, 1, "once")
		require.Contains(t, b.log.lines[0], "go by packets")
		require.Contains(t, b.log.lines[0], "is not dumpable")
		b.end(t)
	})
	t.Run("later", func(t *testing.T) {
		runtime.LockOSThread()
		require.True(t, dropPtrace(t))
		b := newBorrower(t, device.QPConfig{ReadsPlain: true}, "later")
		local := make([]byte, maxRDMA)
		var keys [3]uint64
		var addr uint64
		for i := range keys {
			if keys[i], addr = b.borrow(); i < 2 {
				require.Equal(t, device.StatusOK, b.read(local, keys[i], addr))
				require.Equal(t, pattern(maxRDMA), local)
			}
		}
		for range 2 { // the second of them had been lent by then
			require.Equal(t, device.StatusUnsupportedOp, b.read(local, keys[2], addr))
		}
		key, _ := b.borrow()
		require.Zero(t, key)
		require.Len(t, b.log.lines, 1, "once")
		require.Contains(t, b.log.lines[0], "from now on")
		b.end(t)
	})
}

// TestPlainLenderKilled: a lender that is killed while it is read from ends that with the status
// of a queue pair that is gone, and what was read before is right.
func TestPlainLenderKilled(t *testing.T) {
	b := newBorrower(t, device.QPConfig{ReadsPlain: true}, "open")
	before := countPidfds(t) // os/exec may have one
	key, addr := b.borrow()
	require.NotZero(t, key)
	require.Equal(t, before+1, countPidfds(t))
	local, gone, st := make([]byte, maxRDMA), false, device.StatusOK
	take := func(e device.Completion) {
		switch e.Op {
		case device.OpSend:
			st = e.Status
		case device.OpGone:
			gone = e.SrcQPN == b.qpn
		default:
		}
	}
	const none = device.Status(255)
	for reads := 0; st == device.StatusOK; reads++ {
		if reads == 100 {
			require.NoError(t, b.cmd.Process.Kill())
		}
		clear(local)
		require.NoError(t, b.q.PostSend(&device.SendWR{
			AH: b.ah, QPN: b.qpn, QKey: testQKey, Kind: device.WRRead, Payload: local, RKey: key, Remote: addr,
		}))
		for st = none; st == none; {
			pollOnce(b.q, take)
		}
		if st == device.StatusOK {
			require.Equal(t, pattern(maxRDMA), local)
		} else {
			require.GreaterOrEqual(t, reads, 100)
		}
	}
	require.True(t, st.Gone(), st)
	for !gone {
		pollOnce(b.q, take)
	}
	require.LessOrEqual(t, countPidfds(t), before, "none is left")
}

// plainPair is two queue pairs of this process, the second of which reads what the first lends.
type plainPair struct {
	lends, reads device.QP
	to           device.AH
	mem, local   []byte
	wr           device.SendWR
	reading      atomic.Bool // a read begins
}

func newPlainPair(t *testing.T) *plainPair {
	dir := fabricDir(t)
	p := &plainPair{mem: make([]byte, maxRDMA), local: make([]byte, maxRDMA)}
	p.lends, p.to = mustAttach(t, dir, device.QPConfig{QKey: testQKey})
	reads, ah := mustAttach(t, dir, device.QPConfig{QKey: testQKey, ReadsPlain: true})
	p.reads = reads
	for _, s := range []struct{ from, to device.QP }{{p.reads, p.lends}, {p.lends, p.reads}} {
		st := statusOf(t, s.from, &device.SendWR{AH: ah, QPN: s.to.QPN(), QKey: testQKey, Payload: []byte("hello")})
		require.Equal(t, device.StatusOK, st)
	}
	p.wr = device.SendWR{AH: ah, QPN: p.lends.QPN(), QKey: testQKey, Kind: device.WRRead, Payload: p.local}
	return p
}

func (p *plainPair) lend(t *testing.T, fill byte) {
	for i := range p.mem {
		p.mem[i], p.local[i] = fill, ^fill
	}
	var err error
	p.wr.RKey, p.wr.Remote, err = p.lends.LendPlain(p.to, p.reads.QPN(), p.mem)
	require.NoError(t, err)
}

// during calls f in another goroutine when the read begins, and returns the read's status when
// both have ended.
func (p *plainPair) during(t *testing.T, f func()) device.Status {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for !p.reading.Load() {
			runtime.Gosched()
		}
		f()
	}()
	p.reading.Store(true)
	st := statusOf(t, p.reads, &p.wr)
	<-over
	p.reading.Store(false)
	return st
}

func scribble(mem []byte) {
	for i := range mem {
		mem[i] = 0xee
	}
}

// TestPlainReturned: memory that is taken back during a read, and changed, is not taken for what
// was lent.
func TestPlainReturned(t *testing.T) {
	if raceOn {
		t.Skip("the race detector does not know what orders the kernel's copy")
	}
	p := newPlainPair(t)
	discarded, keys := 0, map[uint64]bool{}
	for i := 0; i < 300 || discarded == 0 && i < 1_000_000; i++ {
		fill := byte(i % 100)
		p.lend(t, fill)
		require.False(t, keys[p.wr.RKey], "no key comes twice")
		keys[p.wr.RKey] = true
		st := p.during(t, func() {
			p.lends.Return(0, p.wr.RKey)
			scribble(p.mem)
		})
		if st == device.StatusOK {
			require.Equal(t, maxRDMA, bytes.Count(p.local, []byte{fill}))
			continue
		}
		require.Equal(t, device.StatusBadAddress, st)
		if p.local[0] != ^fill {
			discarded++
		}
	}
	require.NotZero(t, discarded, "reads that had copied")
}

// TestPlainMoved: memory whose place a copy takes during a read is read from one of the two.
func TestPlainMoved(t *testing.T) {
	if raceOn {
		t.Skip("the race detector does not know what orders the kernel's copy")
	}
	p := newPlainPair(t)
	var again []byte
	for i := range 300 {
		fill := byte(i % 100)
		p.lend(t, fill)
		again = append(again[:0], p.mem...)
		require.ErrorIs(t, p.lends.Relend(0, p.wr.RKey, again[1:]), device.ErrBadKey, "not the same")
		require.ErrorIs(t, p.lends.Relend(0, p.wr.RKey+maxWindows, again), device.ErrBadKey)
		st := p.during(t, func() {
			require.NoError(t, p.lends.Relend(0, p.wr.RKey, again))
			scribble(p.mem)
		})
		require.Equal(t, device.StatusOK, st)
		require.Equal(t, maxRDMA, bytes.Count(p.local, []byte{fill}))
		p.lends.Return(0, p.wr.RKey)
	}
}

// TestPlainAllocatesNothing: to lend, read and take back.
func TestPlainAllocatesNothing(t *testing.T) {
	if raceOn {
		t.Skip("the race detector allocates")
	}
	p := newPlainPair(t)
	var c [4]device.Completion
	p.reads.Poll(c[:]) // the first packet
	require.Zero(t, testing.AllocsPerRun(100, func() {
		p.wr.RKey, p.wr.Remote, _ = p.lends.LendPlain(p.to, p.reads.QPN(), p.mem)
		if p.reads.PostSend(&p.wr) != nil || p.reads.Poll(c[:]) != 1 || c[0].Status != device.StatusOK {
			panic("not read")
		}
		p.lends.Return(0, p.wr.RKey)
	}))
}

// TestPlainWindows: there are as many as a queue pair has, then none.
func TestPlainWindows(t *testing.T) {
	p := newPlainPair(t)
	var keys []uint64
	for {
		key, _, err := p.lends.LendPlain(p.to, p.reads.QPN(), p.mem)
		if err != nil {
			require.ErrorIs(t, err, device.ErrNoMemory)
			break
		}
		keys = append(keys, key)
	}
	require.Greater(t, len(keys), maxWindows/2)
	for _, key := range keys {
		p.lends.Return(0, key)
	}
	p.lend(t, 1)
	require.Equal(t, device.StatusOK, statusOf(t, p.reads, &p.wr))
	require.NoError(t, p.lends.Close())
	require.True(t, statusOf(t, p.reads, &p.wr).Gone(), "of a queue pair that is closed")
}
