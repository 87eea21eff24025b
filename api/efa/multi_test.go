//go:build linux

package efa_test

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// town is two hosts: processes on the first meet in a directory, all meet on a network.
type town struct {
	t   *testing.T
	dir string
	far func() efa.Device // an attachment to the network
}

// farKinds are the networks.
var farKinds = map[string]func(t *testing.T) func() efa.Device{
	"sim": func(t *testing.T) func() efa.Device {
		f := newFabric(t, sim.Config{Seed: 3})
		return func() efa.Device {
			d, err := f.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true, MinRead: 50_000, MinReadWrite: 50_000})
			require.NoError(t, err)
			return d
		}
	},
	"tcp": func(t *testing.T) func() efa.Device {
		return func() efa.Device {
			d, err := efa.OpenDevice("tcp")
			require.NoError(t, err)
			return d
		}
	},
}

// open makes an endpoint on the first host, or on one of its own.
func (w *town) open(alone bool, mode efa.Progress) *side {
	w.t.Helper()
	dev := w.far()
	if !alone {
		near, err := shm.Open(shm.Config{Dir: w.dir})
		require.NoError(w.t, err)
		dev, err = efa.JoinDevices(near, dev)
		require.NoError(w.t, err)
	}
	w.t.Cleanup(func() { require.NoError(w.t, dev.Close()) })
	dom := domainOn(w.t, dev, efa.DomainConfig{Progress: mode})
	q := newQueue(w.t, dom, 0)
	return newEndpoint(w.t, dom, efa.EndpointConfig{SendQueue: q, RecvQueue: q})
}

// townTest runs f with two endpoints on one host and one on another, on each network
// and in each progress mode; to is the handle that one has of the other.
func townTest(t *testing.T, f func(t *testing.T, all []*side, to [][]efa.Addr)) {
	for name, far := range farKinds {
		for _, mode := range some(t, modes) {
			t.Run(name+"/"+mode.String(), func(t *testing.T) {
				w := &town{t: t, dir: filepath.Join(t.TempDir(), "fabric"), far: far(t)}
				all := []*side{w.open(false, mode), w.open(false, mode), w.open(true, mode)}
				to := make([][]efa.Addr, len(all))
				for i, s := range all {
					for _, x := range all {
						h, err := s.av.Insert(x.ep.Address())
						require.NoError(t, err)
						to[i] = append(to[i], h)
					}
				}
				f(t, all, to)
			})
		}
	}
}

// kindOf is the kind of a device.
func kindOf(name string) string {
	return strings.TrimRight(strings.SplitN(name, ":", 2)[0], "0123456789")
}

// TestPathChoice: peers that can meet in shared memory do; both sides choose the same path,
// and each pair is one peer on either side.
func TestPathChoice(t *testing.T) {
	townTest(t, func(t *testing.T, all []*side, to [][]efa.Addr) {
		ctx := testContext(t)
		kinds := [][]string{}
		for i, s := range all {
			kinds = append(kinds, nil)
			for j, x := range all {
				name, err := s.av.Device(to[i][j])
				require.NoError(t, err)
				kinds[i] = append(kinds[i], kindOf(name))
				a, err := s.av.Lookup(to[i][j])
				require.NoError(t, err)
				require.True(t, x.ep.Address().Equal(a), "with all its paths")
				op := start(t, s, &efa.SendReq{To: to[i][j], Buf: []byte{byte(i)}})
				var b [1]byte
				m, err := x.ep.Recv(ctx, b[:])
				require.NoError(t, err)
				require.Equal(t, to[j][i], m.From)
				done(t, op)
			}
		}
		far := kinds[2][2]
		require.Equal(t, [][]string{{"shm", "shm", far}, {"shm", "shm", far}, {far, far, far}}, kinds)
		require.NotEqual(t, "shm", far)
		for i, s := range all {
			snap, err := s.ep.Snapshot(ctx)
			require.NoError(t, err)
			var got []string
			for _, p := range snap.Peers {
				require.NotNil(t, p.Handle)
				got = append(got, kindOf(p.Device))
			}
			slices.Sort(got)
			slices.Sort(kinds[i])
			require.Equal(t, kinds[i], got)
		}
		_, err := all[0].av.Device(77)
		require.ErrorIs(t, err, efa.ErrInvalid)
	})
}

// TestSizesOnPaths: messages of all sizes from everybody to everybody at the same time,
// each into a receive that names its sender.
func TestSizesOnPaths(t *testing.T) {
	sizes := []int{0, 8, 8000, 9000, 60_000, 70_000, 300_000, 3 << 20}
	townTest(t, func(t *testing.T, all []*side, to [][]efa.Addr) {
		for _, n := range sizes {
			type post struct {
				op *efa.Op
				to []byte
				by byte
			}
			var posts []post
			var sends []*efa.Op
			for i, s := range all {
				for j, x := range all {
					var buf, from []byte
					if n >= 60_000 && (i+j)%2 == 0 {
						buf, from = alloc(t, x, n, 0).Bytes(), alloc(t, s, n, 0).Bytes()
						clear(buf)
					} else {
						buf, from = make([]byte, n), make([]byte, n)
					}
					for k := range from {
						from[k] = byte(k>>8) ^ byte(k) ^ byte(16*i+j)
					}
					op := start(t, x, &efa.RecvReq{From: to[j][i], Directed: true, Buf: buf})
					posts = append(posts, post{op, buf, byte(16*i + j)})
					sends = append(sends, start(t, s, &efa.SendReq{To: to[i][j], Buf: from}))
				}
			}
			for _, op := range sends {
				done(t, op)
			}
			for _, p := range posts {
				require.Equal(t, n, done(t, p.op).N)
				for k := range p.to {
					if p.to[k] != byte(k>>8)^byte(k)^p.by {
						t.Fatalf("byte %d of %d", k, n)
					}
				}
			}
		}
	})
}

// TestMemoryOnPaths: one region, one Remote, from both sides of the town: written, read
// and updated by all.
func TestMemoryOnPaths(t *testing.T) {
	townTest(t, func(t *testing.T, all []*side, to [][]efa.Addr) {
		ctx := testContext(t)
		const n = 400_000
		for j, x := range all {
			m := alloc(t, x, n, remote)
			registered, err := x.dom.Register(make([]byte, 5000), remote)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, registered.Close()) })
			_, err = x.ep.Stats(ctx) // the race detector does not see what goes through a socket
			require.NoError(t, err)
			for i, s := range all {
				for k, at := range []efa.Remote{m.Remote(), registered.Remote()} {
					size := min(n, int(at.Len()))
					data := bytes.Repeat([]byte{byte(1 + 16*i + j), byte(k)}, size/2)
					require.NoError(t, s.ep.Memory(to[i][j], at).Write(ctx, data, efa.Complete(efa.Delivered)))
					got := make([]byte, size)
					require.NoError(t, s.ep.Memory(to[i][j], at).Read(ctx, got))
					require.True(t, bytes.Equal(data, got))
					require.NoError(t, efa.NewCell[uint64](s.ep.Memory(to[i][j], at)).Store(ctx, uint64(40)))
					v, err := efa.NewCell[uint64](s.ep.Memory(to[i][j], at)).FetchAdd(ctx, uint64(2))
					require.NoError(t, err)
					require.EqualValues(t, 40, v)
					v, err = efa.NewCell[uint64](s.ep.Memory(to[i][j], at)).Load(ctx)
					require.NoError(t, err)
					require.EqualValues(t, 42, v)
				}
			}
		}
	})
}

// TestDeathOnPaths: an endpoint that goes fails what is in progress with it, receives
// that name it too, on its path; the others go on.
func TestDeathOnPaths(t *testing.T) {
	for gone, name := range map[int]string{1: "near", 2: "far"} {
		t.Run(name, func(t *testing.T) {
			townTest(t, func(t *testing.T, all []*side, to [][]efa.Addr) {
				ctx := testContext(t)
				left := 3 - gone
				meet := func(i, j int) {
					op := start(t, all[i], &efa.SendReq{To: to[i][j]})
					_, err := all[j].ep.Recv(ctx, nil)
					require.NoError(t, err)
					done(t, op)
				}
				for _, j := range []int{1, 2} {
					meet(0, j)
					meet(j, 0)
				}
				waits := start(t, all[0], &efa.RecvReq{From: to[0][gone], Directed: true, Buf: make([]byte, 8)})
				other := start(t, all[0], &efa.RecvReq{From: to[0][left], Directed: true, Buf: make([]byte, 8)})
				require.NoError(t, all[gone].ep.Close())
				_, err := start(t, all[0], &efa.SendReq{To: to[0][gone], Buf: make([]byte, 3<<20)}).Wait(ctx)
				require.ErrorIs(t, err, efa.ErrPeerFailed)
				_, err = waits.Wait(ctx)
				require.ErrorIs(t, err, efa.ErrPeerFailed)
				ev, err := all[0].ep.NextEvent(ctx)
				require.NoError(t, err)
				require.Contains(t, []efa.EventKind{efa.PeerFailed, efa.PeerClosed}, ev.Kind)
				require.Equal(t, to[0][gone], ev.Peer)
				device, err := all[0].av.Device(to[0][gone])
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(ev.Address.String(), kindOf(device)+"://"), "the path that failed: %v", ev.Address)
				op := start(t, all[left], &efa.SendReq{To: to[left][0], Buf: []byte("still")})
				require.Equal(t, 5, done(t, other).N)
				done(t, op)
			})
		})
	}
}

// TestStrangersOnPaths: a peer that sends before its address is known here is known by it
// afterwards, on any path.
func TestStrangersOnPaths(t *testing.T) {
	w := &town{t: t, dir: filepath.Join(t.TempDir(), "fabric"), far: farKinds["sim"](t)}
	ctx := testContext(t)
	a := w.open(false, efa.ProgressAuto)
	for i, x := range []*side{w.open(false, efa.ProgressAuto), w.open(true, efa.ProgressAuto)} {
		h, err := x.av.Insert(a.ep.Address())
		require.NoError(t, err)
		op := start(t, x, &efa.SendReq{To: h, Buf: []byte{byte(i)}})
		done(t, op)
		ev, err := a.ep.NextEvent(ctx)
		require.NoError(t, err)
		require.Equal(t, efa.NewPeer, ev.Kind)
		path := strings.SplitN(x.ep.Address().String(), ";", 2)[0]
		require.Equal(t, path, ev.Address.String())
		back, err := a.av.Insert(x.ep.Address())
		require.NoError(t, err)
		var b [1]byte
		m, err := a.ep.Recv(ctx, b[:], efa.From(back))
		require.NoError(t, err)
		require.Equal(t, back, m.From)
		require.Equal(t, byte(i), b[0])
	}
}

// TestChoiceTable: which of our devices an address is reached by.
func TestChoiceTable(t *testing.T) {
	f := newFabric(t, sim.Config{})
	port := func(name string, net int) efa.Device {
		d, err := f.OpenDevice(sim.DeviceConfig{Name: name, Net: net})
		require.NoError(t, err)
		return d
	}
	addressOn := func(devs ...efa.Device) efa.Address {
		dev := devs[0]
		if len(devs) > 1 {
			var err error
			dev, err = efa.JoinDevices(devs...)
			require.NoError(t, err)
		}
		return open(t, dev, efa.DomainConfig{}).ep.Address()
	}
	one, err := efa.JoinDevices(port("near1", 1), port("far1", 2), port("far2", 3))
	require.NoError(t, err)
	s := open(t, one, efa.DomainConfig{})
	require.Regexp(t, `^near://\S+;far://\S+;far://\S+$`, s.ep.Address().String())
	for _, c := range []struct {
		what string
		a    efa.Address
		want string
	}{
		{"same devices", addressOn(port("near", 1), port("far", 2), port("far", 3)), "near1"},
		{"near network is another", addressOn(port("near", 9), port("far", 2)), "far1"},
		{"other order", addressOn(port("far", 2), port("near", 1)), "near1"},
		{"second far", addressOn(port("near", 9), port("far", 3)), "far2"},
		{"far alone", addressOn(port("far", 2)), "far1"},
		{"kind that only they have", addressOn(port("sea", 2), port("far", 2)), "far1"},
		{"kind that only they have, alone", addressOn(port("sea", 2)), "has no path on a near or far or far device"},
		{"nothing in reach", addressOn(port("near", 8), port("far", 9)), "is out of the reach of multi(near1, far1, far2)"},
		{"nowhere", efa.Address{}, "zero Address"},
	} {
		h, err := s.av.Insert(c.a)
		if err != nil {
			require.ErrorIs(t, err, efa.ErrAddrNotAvail, c.what)
			require.ErrorContains(t, err, c.want, c.what)
			continue
		}
		name, err := s.av.Device(h)
		require.NoError(t, err)
		require.Equal(t, c.want, name, c.what)
		again, err := s.av.Insert(c.a)
		require.NoError(t, err)
		require.Equal(t, h, again)
		got, err := s.av.Lookup(h)
		require.NoError(t, err)
		require.True(t, c.a.Equal(got), c.what)
		require.NoError(t, s.av.Remove(context.Background(), h))
	}
}

// TestOtherDirectory: a peer on this host that uses another directory, in a container say,
// is reached by the network.
func TestOtherDirectory(t *testing.T) {
	far := farKinds["tcp"](t)
	a := (&town{t: t, dir: filepath.Join(t.TempDir(), "fabric"), far: far}).open(false, efa.ProgressAuto)
	b := (&town{t: t, dir: filepath.Join(t.TempDir(), "fabric"), far: far}).open(false, efa.ProgressAuto)
	introduce(t, a, b)
	name, err := a.av.Device(a.peer)
	require.NoError(t, err)
	require.Equal(t, "tcp", kindOf(name))
	op := start(t, a, &efa.SendReq{To: a.peer, Buf: []byte("x")})
	m, err := b.ep.Recv(testContext(t), make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, b.peer, m.From)
	done(t, op)
}

// TestPathsOfOneEndpoint: connid and MTU are one, the rest is each device's own.
func TestPathsOfOneEndpoint(t *testing.T) {
	w := &town{t: t, dir: filepath.Join(t.TempDir(), "fabric"), far: farKinds["sim"](t)}
	a := w.open(false, efa.ProgressAuto)
	near, ok := a.ep.Address().Raw("shm")
	require.True(t, ok)
	far, ok := a.ep.Address().Raw("sim")
	require.True(t, ok)
	require.Equal(t, near.ConnID(), far.ConnID())
	require.NotEqual(t, near.GID(), far.GID())
	b, err := efa.ParseAddress(fmt.Sprint(a.ep.Address()))
	require.NoError(t, err)
	require.True(t, b.Equal(a.ep.Address()))
}
