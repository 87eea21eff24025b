package multi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/multi"
)

// fake is a device of which the test makes everything.
type fake struct {
	device.Base
	info    device.Info
	name    string
	log     *[]string
	nextKey uint32
	local   bool  // what it registers lies out of others' reach
	noMR    error // of Register
	refuse  error // of OpenQP
	gids    map[device.GID]bool
	qps     []*fakeQP
}

func (f *fake) say(format string, a ...any) {
	*f.log = append(*f.log, f.name+": "+fmt.Sprintf(format, a...))
}

func (f *fake) Info() device.Info { return f.info }
func (f *fake) Close() error      { f.say("close"); return nil }

func (f *fake) Reaches(g device.GID) bool { return f.gids[g] }

func (f *fake) Register(mem []byte, a device.Access) (device.MR, error) {
	if f.noMR != nil {
		return nil, f.noMR
	}
	f.nextKey++
	f.say("register %d bytes access %d key %d", len(mem), a, f.nextKey)
	return &fakeMR{f: f, mem: mem, addr: 0x1000 * uint64(f.nextKey), key: f.nextKey}, nil
}

func (f *fake) Alloc(n int, a device.Access) (device.MR, error) {
	return f.Register(make([]byte, n), a)
}

func (f *fake) OpenQP(c device.QPConfig) (device.QP, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	q := &fakeQP{f: f, qpn: c.QPN + 100, armed: true, place: c.Place}
	f.qps = append(f.qps, q)
	return q, nil
}

type fakeMR struct {
	device.MRBase
	f    *fake
	mem  []byte
	addr uint64
	key  uint32
}

func (m *fakeMR) Bytes() []byte { return m.mem }
func (m *fakeMR) Addr() uint64  { return m.addr }
func (m *fakeMR) RKey() uint64  { return uint64(m.key) }
func (m *fakeMR) Remote() bool  { return !m.f.local }
func (m *fakeMR) Close() error  { m.f.say("close region %d", m.key); return nil }

func (m *fakeMR) LKey() uint32 { return m.key + 1 }

type fakeQP struct {
	device.QPBase
	f     *fake
	qpn   uint16
	comps []device.Completion
	armed bool
	place device.Placer
}

func (q *fakeQP) QPN() uint16                            { return q.qpn }
func (q *fakeQP) RecvSlots() int                         { return 4 }
func (q *fakeQP) RecvBytes(n int) []byte                 { return []byte(fmt.Sprint(q.f.name, n)) }
func (q *fakeQP) PostRecv(s []int32)                     { q.f.say("post %v", s) }
func (q *fakeQP) Doorbell()                              { q.f.say("doorbell") }
func (q *fakeQP) Arm() bool                              { q.f.say("arm"); return q.armed }
func (q *fakeQP) FDs() []int                             { return []int{int(q.qpn)} }
func (q *fakeQP) Close() error                           { q.f.say("close qp"); return nil }
func (q *fakeQP) CreateAH(device.GID) (device.AH, error) { return 7, nil }
func (q *fakeQP) DestroyAH(device.AH) error              { return nil }
func (q *fakeQP) PostSend(wr *device.SendWR) error       { q.f.say("send to %d", wr.AH); return nil }

func (q *fakeQP) Poll(c []device.Completion) int {
	n := copy(c, q.comps)
	q.comps = q.comps[n:]
	return n
}

// pair is two fakes, and their log.
func pair() (a, b *fake, log *[]string) {
	log = new([]string)
	mk := func(name string, gid byte) *fake {
		return &fake{
			name: name, log: log, nextKey: 10 * uint32(gid), gids: map[device.GID]bool{{gid}: true},
			info: device.Info{Name: name, GID: device.GID{gid}, MTU: 1000, MaxSQ: 10, MaxRQ: 20, RDMARead: true, MaxRDMA: 100},
		}
	}
	return mk("a", 1), mk("b", 2), log
}

// TestOpen: several devices have the abilities that each of them has; a device that
// does not fit is refused.
func TestOpen(t *testing.T) {
	a, b, log := pair()
	b.info.MaxSQ, b.info.MaxRQ, b.info.MaxQP, b.info.MaxRDMA = 5, 30, 3, 50
	b.info.RDMAWrite, b.info.CopiesAtPost, a.info.MinRead = true, true, 7
	b.info.MTU, b.info.LocalKeys, b.info.PartID = 900, true, 0xefa1
	d, err := multi.Open(a, b)
	require.NoError(t, err)
	require.Equal(t, device.Info{
		Name: "multi(a, b)", GID: device.GID{1}, MTU: 900, MaxSQ: 5, MaxRQ: 20, MaxQP: 3, RDMARead: true, MaxRDMA: 50, MinRead: 7,
		LocalKeys: true, PartID: 0xefa1,
	}, d.Info())
	require.True(t, d.Reaches(device.GID{2}))
	require.False(t, d.Reaches(device.GID{3}))
	require.NoError(t, d.Close())
	require.Equal(t, []string{"b: close", "a: close"}, *log)
	require.ErrorIs(t, d.Close(), device.ErrClosed)

	for name, change := range map[string]func(*device.Info){
		"PartID": func(i *device.Info) { i.PartID = 0xefa1 },
	} {
		a, b, _ := pair()
		a.info.PartID = 0xefa2
		b.info.PartID = 0xefa2
		change(&b.info)
		_, err := multi.Open(a, b)
		require.ErrorIs(t, err, multi.ErrMismatch)
		require.ErrorContains(t, err, name)
	}
	nested, err := multi.Open(a)
	require.NoError(t, err)
	for _, c := range []struct {
		devs []device.Device
		want string
	}{
		{nil, "0 of them"},
		{slices.Repeat([]device.Device{a}, 9), "9 of them"},
		{[]device.Device{a, b, a}, "one GID"},
		{[]device.Device{nested, b}, "multi(a) is several"},
	} {
		_, err = multi.Open(c.devs...)
		require.ErrorIs(t, err, multi.ErrMismatch)
		require.ErrorContains(t, err, c.want)
	}
}

// TestRegion: each device has its own name for the memory, whose owner closes last.
func TestRegion(t *testing.T) {
	a, b, log := pair()
	d, err := multi.Open(a, b)
	require.NoError(t, err)
	const all = device.RemoteRead | device.RemoteWrite | device.LocalWrite
	r, err := d.Alloc(10, all)
	require.NoError(t, err)
	require.Len(t, r.Bytes(), 10)
	parts := r.Parts()
	require.Len(t, parts, 2)
	for i, key := range []uint32{11, 21} {
		require.EqualValues(t, key, parts[i].RKey())
		require.Equal(t, key+1, parts[i].LKey())
		require.EqualValues(t, 0x1000*key, parts[i].Addr())
		require.True(t, parts[i].Remote())
	}
	require.Equal(t, []uint32{11, 12}, []uint32{uint32(r.RKey()), r.LKey()}, "the first's")
	require.ErrorIs(t, d.Close(), device.ErrBusy)
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Close(), device.ErrClosed)
	require.Equal(t, []string{
		"a: register 10 bytes access 7 key 11", "b: register 10 bytes access 7 key 21",
		"b: close region 21", "a: close region 11",
	}, *log)

	a.local = true
	r, err = d.Register(make([]byte, 3), device.RemoteRead)
	require.NoError(t, err)
	require.Equal(t, []bool{false, true}, []bool{r.Parts()[0].Remote(), r.Parts()[1].Remote()})
	require.NoError(t, r.Close())

	*log, b.noMR = nil, device.ErrNoMemory
	_, err = d.Alloc(1, all)
	require.ErrorIs(t, err, device.ErrNoMemory)
	require.ErrorContains(t, err, "b: ")
	require.Equal(t, []string{"a: register 1 bytes access 7 key 13", "a: close region 13"}, *log)
	require.NoError(t, d.Close())
	_, err = d.Alloc(1, all)
	require.ErrorIs(t, err, device.ErrClosed)
}

// TestQueuePair: numbers of handles and slots are the queue pair's own, and lead to the
// path that they belong to.
func TestQueuePair(t *testing.T) {
	a, b, log := pair()
	d, err := multi.Open(a, b)
	require.NoError(t, err)
	qp, err := d.OpenQP(device.QPConfig{QPN: 3})
	require.NoError(t, err)
	require.ErrorIs(t, d.Close(), device.ErrBusy)
	require.Equal(t, []device.Path{{Info: a.info, QPN: 103}, {Info: b.info, QPN: 103}}, qp.Paths())
	require.EqualValues(t, 103, qp.QPN())
	require.Equal(t, []int{103, 103}, qp.FDs())
	require.Equal(t, 8, qp.RecvSlots())
	require.Equal(t, "b2", string(qp.RecvBytes(6)))
	require.Nil(t, qp.RecvBytes(8))
	require.Nil(t, qp.RecvBytes(-1))

	toA, err := qp.CreateAH(device.GID{1})
	require.NoError(t, err)
	toB, err := qp.CreateAH(device.GID{2})
	require.NoError(t, err)
	require.Equal(t, []device.AH{0, 1}, []device.AH{toA, toB})
	require.Equal(t, []int{0, 1}, []int{qp.PathOf(toA), qp.PathOf(toB)})
	wr := device.SendWR{AH: toB}
	require.NoError(t, qp.PostSend(&wr))
	require.Equal(t, toB, wr.AH)
	qp.PostRecv([]int32{5, 1, 8, -1, 4})
	qp.Doorbell()
	qp.Doorbell()
	require.Equal(t, []string{"b: send to 7", "a: post [1]", "b: post [1 0]", "a: doorbell", "b: doorbell"}, *log)
	*log = nil
	require.NoError(t, qp.PostSend(&wr))
	qp.Doorbell()
	require.Equal(t, []string{"b: send to 7", "b: doorbell"}, *log, "no bell where nothing was posted")

	a.qps[0].comps = []device.Completion{
		{Op: device.OpRecv, ID: 3, AH: 7},
		{Op: device.OpSend, ID: 3, AH: 7},
		{Op: device.OpRecv, ID: 1, AH: device.UnknownAH},
	}
	b.qps[0].comps = []device.Completion{
		{Op: device.OpRecv, ID: 3, AH: 7},
		{Op: device.OpSend, ID: 3, AH: 7},
		{Op: device.OpWritten, ID: device.NoSlot, AH: 7},
		{Op: device.OpWritten, ID: 0, AH: 6},
		{Op: device.OpGone, AH: 7},
		{Op: device.OpRecv, ID: 4, AH: 8},
	}
	var got []device.Completion
	for range 9 {
		var c [1]device.Completion
		require.Equal(t, 1, qp.Poll(c[:]))
		got = append(got, c[0])
	}
	require.ElementsMatch(t, []device.Completion{
		{Op: device.OpRecv, ID: 3, AH: toA},
		{Op: device.OpSend, ID: 3, AH: 7},
		{Op: device.OpRecv, ID: 1, AH: device.UnknownAH},
		{Op: device.OpRecv, ID: 7, AH: toB},
		{Op: device.OpSend, ID: 3, AH: 7},
		{Op: device.OpWritten, ID: device.NoSlot, AH: toB},
		{Op: device.OpWritten, ID: 4, AH: device.UnknownAH},
		{Op: device.OpGone, AH: toB},
		{Op: device.OpRecv, ID: device.NoSlot, AH: device.UnknownAH},
	}, got)
	require.NotEqual(t, got[0].AH, got[1].AH, "the paths take turns")

	require.True(t, qp.Arm())
	b.qps[0].armed = false
	require.False(t, qp.Arm())
	require.NoError(t, qp.Close())
	require.ErrorIs(t, qp.Close(), device.ErrClosed)
	require.NoError(t, d.Close())
}

// TestQueuePairRefused: queue pairs that were opened before a refusal are closed.
func TestQueuePairRefused(t *testing.T) {
	a, b, log := pair()
	b.refuse = device.ErrQPNInUse
	d, err := multi.Open(a, b)
	require.NoError(t, err)
	_, err = d.OpenQP(device.QPConfig{})
	require.ErrorIs(t, err, device.ErrQPNInUse)
	require.Equal(t, []string{"a: close qp"}, *log)
	require.NoError(t, d.Close())
}

// TestCarried: each path counts what goes over it, and only what its device took.
func TestCarried(t *testing.T) {
	a, b, _ := pair()
	d, err := multi.Open(a, b)
	require.NoError(t, err)
	qp, err := d.OpenQP(device.QPConfig{})
	require.NoError(t, err)
	toA, err := qp.CreateAH(device.GID{1})
	require.NoError(t, err)
	toB, err := qp.CreateAH(device.GID{2})
	require.NoError(t, err)
	for _, wr := range []device.SendWR{
		{AH: toB, Header: make([]byte, 10), Payload: make([]byte, 90)},
		{AH: toB, Kind: device.WRRead, Payload: make([]byte, 7)},
		{AH: toA, Kind: device.WRWrite, Payload: make([]byte, 5), More: []device.Piece{{Mem: make([]byte, 6)}}},
	} {
		require.NoError(t, qp.PostSend(&wr))
	}
	require.ErrorIs(t, qp.PostSend(&device.SendWR{AH: 99, Header: make([]byte, 10)}), device.ErrBadAH)
	b.qps[0].comps = []device.Completion{
		{Op: device.OpRecv, ID: 2, Len: 50, AH: 7},
		{Op: device.OpRecv, ID: 3, Len: 50, AH: 7, Status: device.StatusLocalBadLength},
		{Op: device.OpRecv, ID: 77, Len: 50, AH: 7},
		{Op: device.OpSend, ID: 1},
	}
	var c [8]device.Completion
	require.Equal(t, 4, qp.Poll(c[:]))
	require.Equal(t, device.PathStats{Writes: 1, WriteBytes: 11}, qp.Paths()[0].Stats)
	require.Equal(t, device.PathStats{Sends: 1, SendBytes: 100, Reads: 1, ReadBytes: 7, Recvs: 1, RecvBytes: 50}, qp.Paths()[1].Stats)
	require.NoError(t, qp.Close())
	require.NoError(t, d.Close())
}

// TestPlace: a path's question for the place of a payload is asked by our address handle, and its packet comes by our
// numbers.
func TestPlace(t *testing.T) {
	a, b, _ := pair()
	d, err := multi.Open(a, b)
	require.NoError(t, err)
	var asked []device.AH
	there := make([]byte, 5)
	qp, err := d.OpenQP(device.QPConfig{Place: func(ah device.AH, qpn uint16, head []byte, size int) ([]byte, bool) {
		require.Equal(t, []any{uint16(3), "head", 9}, []any{qpn, string(head), size})
		asked = append(asked, ah)
		return there, true
	}})
	require.NoError(t, err)
	_, err = qp.CreateAH(device.GID{1})
	require.NoError(t, err)
	toB, err := qp.CreateAH(device.GID{2})
	require.NoError(t, err)
	dst, later := b.qps[0].place(7, 3, []byte("head"), 9)
	require.Same(t, &there[0], &dst[0])
	require.True(t, later)
	for _, unknown := range []device.AH{6, 8, device.UnknownAH} {
		dst, later = b.qps[0].place(unknown, 3, []byte("head"), 9)
		require.Nil(t, dst)
		require.False(t, later)
	}
	require.Equal(t, []device.AH{toB}, asked)
	b.qps[0].comps = []device.Completion{{Op: device.OpPlaced, ID: 2, Len: 9, Imm: 4, AH: 7}}
	var c [2]device.Completion
	require.Equal(t, 1, qp.Poll(c[:]))
	require.Equal(t, device.Completion{Op: device.OpPlaced, ID: 6, Len: 9, Imm: 4, AH: toB}, c[0])
	require.Equal(t, uint64(9), qp.Paths()[1].Stats.RecvBytes)
	require.NoError(t, qp.Close())
	require.NoError(t, d.Close())
}

// quietPair is a queue pair whose second path has been quiet for this many polls.
func quietPair(t *testing.T, polls int) (qp device.QP, a, b *fakeQP) {
	x, y, _ := pair()
	d, err := multi.Open(x, y)
	require.NoError(t, err)
	qp, err = d.OpenQP(device.QPConfig{})
	require.NoError(t, err)
	for range polls {
		require.Zero(t, qp.Poll(make([]device.Completion, 4)))
	}
	return qp, x.qps[0], y.qps[0]
}

// pollsUntil floods the first path with this many completions per poll, and returns the
// number of polls until one of the second arrives.
func pollsUntil(t *testing.T, quiet, flood int) int {
	qp, a, b := quietPair(t, quiet)
	b.comps = []device.Completion{{Op: device.OpSend, ID: 77}}
	c := make([]device.Completion, 4)
	for n := range 1000 {
		a.comps = make([]device.Completion, flood)
		for i := range a.comps {
			a.comps[i].Op = device.OpSend
		}
		for i := range c[:qp.Poll(c)] {
			if c[i].ID == 77 {
				return n + 1
			}
		}
	}
	return 0
}

// TestNoStarvation: a path that was quiet for however long is heard soon, and the sooner
// the more the other has, also when that fills every poll.
func TestNoStarvation(t *testing.T) {
	for quiet := range 200 {
		for flood, most := range map[int]int{0: 16, 1: 9, 3: 6, 4: 6, 9: 6} {
			n := pollsUntil(t, quiet, flood)
			require.Positive(t, n, "%d quiet polls, then %d a poll: never", quiet, flood)
			require.LessOrEqual(t, n, most, "%d quiet polls, then %d a poll", quiet, flood)
		}
	}
}

// TestNoRoomIsNoQuiet: a path that there was no room for is not taken for a quiet one.
func TestNoRoomIsNoQuiet(t *testing.T) {
	for polls := range 200 {
		qp, _, b := quietPair(t, 0)
		for range polls {
			require.Zero(t, qp.Poll(nil))
		}
		b.comps = []device.Completion{{Op: device.OpSend}}
		require.Equal(t, 1, qp.Poll(make([]device.Completion, 1)))
	}
}

// TestArmEndsRest: a woken owner polls all paths, also those at rest.
func TestArmEndsRest(t *testing.T) {
	for quiet := range 100 {
		qp, _, b := quietPair(t, quiet)
		require.True(t, qp.Arm())
		b.comps = []device.Completion{{Op: device.OpSend}}
		require.Equal(t, 1, qp.Poll(make([]device.Completion, 4)))
	}
}

// TestOnePathFails: the end of one path is that of the queue pair: nothing comes after it, and
// nothing is taken for any path.
func TestOnePathFails(t *testing.T) {
	fatal := device.Completion{Op: device.OpFatal, Status: device.StatusQPInternal}
	for _, room := range []int{1, 2, 16} {
		a, b, log := pair()
		d, err := multi.Open(a, b)
		require.NoError(t, err)
		qp, err := d.OpenQP(device.QPConfig{})
		require.NoError(t, err)
		toB, err := qp.CreateAH(device.GID{2})
		require.NoError(t, err)
		sent := device.Completion{Op: device.OpSend, ID: 1}
		a.qps[0].comps = []device.Completion{sent, fatal, sent}
		b.qps[0].comps = []device.Completion{sent, sent, sent, sent}
		var got []device.Completion
		for range 20 {
			c := make([]device.Completion, room)
			got = append(got, c[:qp.Poll(c)]...)
		}
		require.Contains(t, got, fatal)
		require.Equal(t, fatal, got[len(got)-1], "the last")
		*log = nil
		require.ErrorIs(t, qp.PostSend(&device.SendWR{AH: toB}), device.ErrClosed)
		require.True(t, qp.Arm(), "there is nothing to poll for")
		qp.PostRecv([]int32{0, 4})
		qp.Doorbell()
		require.Empty(t, *log)
		require.NoError(t, qp.Close())
		require.NoError(t, d.Close())
	}
}
