package endpoint_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/wire"
)

// FuzzEndpoint reads its input as a program: operations, packets that no
// correct peer sends, statuses and deaths in any order. Whatever the program does,
// nothing panics, each operation has exactly one outcome once the endpoint is
// closed, and every packet entry, receive slot and byte of memory comes back.
func FuzzEndpoint(f *testing.F) {
	for seed := range uint64(16) {
		f.Add(program(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { abuse(t, data) })
}

// TestAbuse runs a few hundred such programs every time.
func TestAbuse(t *testing.T) {
	n := uint64(400)
	if testenv.Short() {
		n = 50
	}
	for seed := range n {
		data := program(seed)
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) { abuse(t, data) }) {
			return
		}
	}
}

func program(seed uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, 50+rng.IntN(1500))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// abuser carries out a program.
type abuser struct {
	data    []byte
	rig     *script.Rig
	remotes []*script.Remote
	ops     []*script.Op
}

func (a *abuser) byte() int {
	if len(a.data) == 0 {
		return 0
	}
	b := a.data[0]
	a.data = a.data[1:]
	return int(b)
}

// size is mostly small, sometimes long.
func (a *abuser) size() int { return a.byte() * []int{0, 1, 4, 40}[a.byte()%4] }

func abuse(t *testing.T, data []byte) {
	a := &abuser{data: data}
	k := a.byte()
	rig, err := script.Start(script.Config{
		Info: device.Info{MTU: 256, CopiesAtPost: k&1 == 0},
		Endpoint: endpoint.Config{
			Settings: settings.InForce{
				Knobs: settings.Knobs{WaitHandshake: k&6 == 0},
				Settings: settings.Settings{
					MaxUnlistedPeers: 3, SendQueue: 4 + k%8, RecvQueue: 64, MaxMedium: 1000, Credits: 1 + k%3, RecvWindow: 4,
					PeerTimeout: 3 * time.Second, PeerMemory: 40000, TotalMemory: 60000,
				},
			},
		},
	})
	require.NoError(t, err)
	a.rig = rig
	for i := range byte(3) {
		a.remotes = append(a.remotes, script.NewRemote(string('a'+rune(i)), i+1, 1, 0xa0+uint32(i)))
	}
	// One more in the place of the first.
	a.remotes = append(a.remotes, script.NewRemote("a2", 1, 1, 0xff))
	for i, x := range a.remotes {
		rig.AddRemote(x)
		if i < 2 {
			rig.Insert(x)
		}
	}
	for len(a.data) > 0 && !rig.QP.Closed() {
		a.step()
	}
	if !rig.QP.Closed() {
		a.settle(t)
	}
	require.NoError(t, rig.Close())
	require.Empty(t, rig.Ends())
	require.Empty(t, rig.QP.Faults)
	require.Zero(t, rig.Shard.Stats().Failures, "panics")
	require.Zero(t, rig.EP.Memory().Charged, "memory for what nobody asked for")
}

// settle lets everything under way succeed, and checks that nothing was lost.
func (a *abuser) settle(t *testing.T) {
	a.rig.Auto = true
	a.rig.Run()
	a.rig.Advance(3 * time.Second) // back-off ends
	free, depth := a.rig.EP.Room()
	require.Equal(t, depth, free, "packet entries")
	if a.rig.EP.Memory().Charged < 30000 { // not throttled
		a.rig.Advance(5 * time.Millisecond)
		a.rig.EP.GiveBackSlots()
		require.Equal(t, a.rig.QP.RecvSlots(), a.rig.QP.Posted(), "receive slots")
	}
}

func (a *abuser) step() {
	r, x := a.rig, a.remotes[a.byte()%4]
	switch a.byte() % 16 {
	case 0, 1:
		if x.Listed {
			a.ops = append(a.ops, r.Send(x, a.size(), ope.Flags(a.byte()%4), 5, 7))
		}
	case 2, 3:
		from := x
		if a.byte()%2 == 0 || !x.Listed {
			from = nil
		}
		a.ops = append(a.ops, r.Recv(from, a.size(), ope.Flags(a.byte()%2), 5, uint64(a.byte()%2)))
	case 4, 5, 6, 7, 8:
		r.Inject(x, a.packet(x))
	case 9, 10:
		if f := r.QP.Flying(); len(f) > 0 {
			r.QP.Complete(f[a.byte()%len(f)], device.StatusOK)
		}
	case 11:
		if f := r.QP.Flying(); len(f) > 0 {
			r.QP.Complete(f[a.byte()%len(f)], device.StatusRNR)
		}
	case 12:
		a.rarely(x)
	case 13:
		if len(a.ops) > 0 {
			r.Cancel(a.ops[a.byte()%len(a.ops)])
		}
	case 14:
		r.Advance(time.Duration(a.byte()) * 100 * time.Microsecond)
	case 15:
		return // let it pile up
	}
	if a.byte()%3 > 0 {
		r.Run()
	}
}

// rarely ends a peer in one way or another; most of the time it does nothing.
func (a *abuser) rarely(x *script.Remote) {
	r := a.rig
	switch a.byte() % 32 {
	case 0:
		r.QP.Gone(x.Addr.GID(), x.Addr.QPN(), x.Addr.ConnID())
	case 1, 2:
		if f := r.QP.Flying(); len(f) > 0 {
			r.QP.Complete(f[a.byte()%len(f)], device.Status(a.byte()%19))
		}
	case 3:
		r.QP.Refuse(script.ErrRefused)
	case 4:
		if x.Listed {
			r.Remove(x)
		}
	case 5, 6:
		if !x.Listed {
			r.Insert(x)
		}
	case 7:
		r.Advance(time.Second)
	case 8:
		if a.byte()%4 == 0 {
			r.BeginClose()
		}
	}
}

// packet makes one that is nearly right: of x, about operations in progress.
func (a *abuser) packet(x *script.Remote) []byte {
	id, length := uint32(a.byte()%12), uint64(a.byte()*8)
	off := uint64(a.byte()*4) % (length + 1)
	n := a.byte() % 200
	o := wire.Options{HasRawAddr: a.byte()%2 == 0, RawAddr: x.Addr, HasConnID: a.byte()%4 == 0, ConnID: x.Addr.ConnID()}
	tagged := a.byte()%2 == 0
	var p wire.Packet
	switch a.byte() % 9 {
	case 0:
		p = &wire.EagerRTM{Options: o, MsgID: id, Tagged: tagged, Tag: 5, DC: a.byte()%16 == 0}
	case 1, 2:
		p = &wire.MediumRTM{Options: o, MsgID: id, Tagged: tagged, Tag: 5, MsgLength: length, SegOffset: off}
	case 3:
		p = &wire.LongCTSRTM{Options: o, MsgID: id, Tagged: tagged, Tag: 5, MsgLength: length, SendID: id}
	case 4, 5:
		p = &wire.CTS{SendID: a.id(wire.TypeLongCTSMsgRTM, 16), RecvID: id, RecvLength: length}
		n = 0
	case 6, 7:
		p = &wire.CTSData{RecvID: a.id(wire.TypeCTS, 12), SegLength: uint64(n), SegOffset: off}
	default:
		h := &wire.Handshake{HasConnID: true, ConnID: x.Addr.ConnID()}
		h.Features[0] = uint64(a.byte())
		p, n = h, 0
	}
	b := append(p.Append(nil), script.Pattern(n, 1)...)
	switch a.byte() % 16 {
	case 0:
		b[a.byte()%len(b)] = byte(a.byte())
	case 1:
		b = b[:a.byte()%len(b)]
	case 2:
		b[0] = byte(a.byte())
	}
	return b[:min(len(b), 256)]
}

// id picks one that we gave out in packets of a type, or one near by.
func (a *abuser) id(t wire.Type, at int) uint32 {
	k := a.byte()
	var ids []uint32
	for _, s := range a.rig.QP.Sent() {
		if s.Bytes[0]&^1 == byte(t)&^1 && s.Bytes[0] >= byte(t) {
			ids = append(ids, binary.LittleEndian.Uint32(s.Bytes[at:]))
		}
	}
	if len(ids) == 0 || k%16 == 0 {
		return uint32(k)
	}
	return ids[max(0, len(ids)-1-k%3)]
}
