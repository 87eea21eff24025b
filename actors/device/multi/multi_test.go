package multi_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/multi"
	"github.com/efactor/efactor/actors/device/sim"
)

// fake is a device of which the test makes everything.
type fake struct {
	device.Device
	info    device.Info
	name    string
	log     *[]string
	taken   map[uint32]bool // keys of others
	nextKey uint32
	local   bool  // what it registers lies out of others' reach
	twoKeys bool  // LKey and RKey differ
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
	f.nextKey++
	return f.RegisterKeyed(mem, a, 0x1000*uint64(f.nextKey), f.nextKey)
}

func (f *fake) Alloc(n int, a device.Access) (device.MR, error) {
	return f.Register(make([]byte, n), a)
}

func (f *fake) RegisterKeyed(mem []byte, a device.Access, addr uint64, key uint32) (device.MR, error) {
	if f.taken[key] {
		return nil, fmt.Errorf("%w: %d", device.ErrKeyInUse, key)
	}
	f.say("register %d bytes access %d addr %#x key %d", len(mem), a, addr, key)
	return &fakeMR{f: f, mem: mem, addr: addr, key: key}, nil
}

func (f *fake) OpenQP(c device.QPConfig) (device.QP, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	q := &fakeQP{f: f, qpn: c.QPN + 100, armed: true}
	f.qps = append(f.qps, q)
	return q, nil
}

type fakeMR struct {
	device.MR
	f    *fake
	mem  []byte
	addr uint64
	key  uint32
}

func (m *fakeMR) Bytes() []byte { return m.mem }
func (m *fakeMR) Addr() uint64  { return m.addr }
func (m *fakeMR) RKey() uint32  { return m.key }
func (m *fakeMR) Remote() bool  { return !m.f.local }
func (m *fakeMR) Close() error  { m.f.say("close region %d", m.key); return nil }

func (m *fakeMR) LKey() uint32 {
	if m.f.twoKeys {
		return m.key + 1
	}
	return m.key
}

type fakeQP struct {
	device.QP
	f     *fake
	qpn   uint16
	comps []device.Completion
	armed bool
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

// pair is two fakes, and what they say.
func pair() (a, b *fake, log *[]string) {
	log = new([]string)
	mk := func(name string, gid byte) *fake {
		return &fake{
			name: name, log: log, taken: map[uint32]bool{}, gids: map[device.GID]bool{{gid}: true},
			info: device.Info{Name: name, GID: device.GID{gid}, MTU: 1000, MaxSQ: 10, MaxRQ: 20, RDMARead: true, MaxRDMA: 100},
		}
	}
	return mk("a", 1), mk("b", 2), log
}

// bare is a device without more than all have.
type bare struct{ device.Device }

// reacher is one that says whom it reaches, and no more.
type reacher struct {
	device.Device
	device.Reacher
}

// TestOpen: what several can is what each of them can; who does not fit is refused.
func TestOpen(t *testing.T) {
	a, b, log := pair()
	b.info.MaxSQ, b.info.MaxRQ, b.info.MaxQP, b.info.MaxRDMA = 5, 30, 3, 50
	b.info.RDMAWrite, b.info.CopiesAtPost, a.info.MinRead = true, true, 7
	d, err := multi.Open(a, b)
	require.NoError(t, err)
	require.Equal(t, device.Info{
		Name: "multi(a, b)", GID: device.GID{1}, MTU: 1000, MaxSQ: 5, MaxRQ: 20, MaxQP: 3, RDMARead: true, MaxRDMA: 50, MinRead: 7,
	}, d.Info())
	require.True(t, d.Reaches(device.GID{2}))
	require.False(t, d.Reaches(device.GID{3}))
	require.NoError(t, d.Close())
	require.Equal(t, []string{"b: close", "a: close"}, *log)
	require.ErrorIs(t, d.Close(), device.ErrClosed)

	for name, change := range map[string]func(*device.Info){
		"MTU":              func(i *device.Info) { i.MTU++ },
		"LocalKeys":        func(i *device.Info) { i.LocalKeys = true },
		"UnsolicitedWrite": func(i *device.Info) { i.UnsolicitedWrite = true },
		"PartID":           func(i *device.Info) { i.PartID = 0xefa1 },
	} {
		a, b, _ := pair()
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
		{[]device.Device{a, bare{b}}, "b takes no keys of others"},
		{[]device.Device{bare{a}, b}, "a does not say whom it reaches"},
		{[]device.Device{a, b, a}, "one GID"},
		{[]device.Device{nested, b}, "multi(a) is several"},
	} {
		_, err = multi.Open(c.devs...)
		require.ErrorIs(t, err, multi.ErrMismatch)
		require.ErrorContains(t, err, c.want)
	}
	_, err = multi.Open(reacher{a, a}, b)
	require.NoError(t, err)
}

// TestRegion: one key and one address on all devices, another key if one of them has it
// already; the owner of the memory closes last.
func TestRegion(t *testing.T) {
	a, b, log := pair()
	b.taken[1] = true
	d, err := multi.Open(a, b)
	require.NoError(t, err)
	const all = device.RemoteRead | device.RemoteWrite | device.LocalWrite
	r, err := d.Alloc(10, all)
	require.NoError(t, err)
	require.EqualValues(t, 2, r.RKey())
	require.EqualValues(t, 0x2000, r.Addr())
	require.True(t, r.Remote())
	require.Len(t, r.Bytes(), 10)
	require.ErrorIs(t, d.Close(), multi.ErrBusy)
	require.NoError(t, r.Close())
	require.ErrorIs(t, r.Close(), device.ErrClosed)
	require.Equal(t, []string{
		"a: register 10 bytes access 7 addr 0x1000 key 1", "a: close region 1",
		"a: register 10 bytes access 7 addr 0x2000 key 2", "b: register 10 bytes access 7 addr 0x2000 key 2",
		"b: close region 2", "a: close region 2",
	}, *log)

	*log, a.local = nil, true
	r, err = d.Register(make([]byte, 3), device.RemoteRead|device.RemoteWrite)
	require.NoError(t, err)
	require.False(t, r.Remote(), "one device does not reach it")
	require.Equal(t, "b: register 3 bytes access 1 addr 0x3000 key 3", (*log)[1], "so the other need not")
	require.NoError(t, r.Close())

	*log, a.twoKeys = nil, true
	_, err = d.Alloc(1, all)
	require.ErrorIs(t, err, device.ErrNotSupported)
	require.Equal(t, "a: close region 4", (*log)[1])
	a.twoKeys = false
	for k := range uint32(100) {
		b.taken[k] = true
	}
	_, err = d.Alloc(1, all)
	require.ErrorIs(t, err, device.ErrNoMemory)
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
	require.ErrorIs(t, d.Close(), multi.ErrBusy)
	p := qp.(device.Pather)
	require.Equal(t, []device.Path{{Info: a.info, QPN: 103}, {Info: b.info, QPN: 103}}, p.Paths())
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
	require.Equal(t, []int{0, 1}, []int{p.PathOf(toA), p.PathOf(toB)})
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

// TestQueuePairRefused: what was opened before a refusal is closed.
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

// TestKeyInUse: two devices on one network have regions of one key when they share it,
// never when they drew it.
func TestKeyInUse(t *testing.T) {
	f, err := sim.New(sim.Config{})
	require.NoError(t, err)
	dc := sim.DeviceConfig{RDMARead: true}
	x, err := f.OpenDevice(dc)
	require.NoError(t, err)
	mem := make([]byte, 10)
	r, err := x.Register(mem, device.RemoteRead)
	require.NoError(t, err)
	_, err = x.RegisterKeyed(mem, device.RemoteRead, r.Addr(), r.RKey())
	require.ErrorIs(t, err, device.ErrKeyInUse)
	for _, bad := range []struct {
		addr uint64
		key  uint32
	}{{0, 1}, {1, 0}} {
		_, err = x.RegisterKeyed(mem, device.RemoteRead, bad.addr, bad.key)
		require.ErrorIs(t, err, device.ErrNotSupported)
	}
	require.NoError(t, r.Close())
	r, err = x.RegisterKeyed(mem, device.RemoteRead, 0x5000, r.RKey())
	require.NoError(t, err)
	require.EqualValues(t, 0x5000, r.Addr())
	require.NoError(t, r.Close())
	require.NoError(t, x.Close())
}
