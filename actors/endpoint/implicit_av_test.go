package endpoint_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// first has a first message of nobody's interest come from a queue pair.
func first(t *testing.T, r *script.Rig, host byte, qpn uint16, connid uint32) {
	t.Helper()
	inject(t, r, script.NewRemote("x", host, qpn, connid), "EAGER_MSGRTM", "msg_id=0", "len=8", "raw_addr")
	r.Run()
}

// TestPlaceHasItsShare: a place may have another endpoint now and then, and leave so many
// messages of former ones that nobody has received. The rest waits, of which nothing is dropped, and the
// place is held back where the device can do that.
func TestPlaceHasItsShare(t *testing.T) {
	for _, holdsBack := range []bool{true, false} {
		r, err := script.Start(script.Config{Info: device.Info{HoldsBack: holdsBack}})
		require.NoError(t, err)
		r.Auto = true
		c := r.EP.Counters()
		const packets = 100
		for id := range uint32(packets) {
			first(t, r, 1, 7, 0x100+id)
		}
		admitted := int(c.Unexpected)
		require.Equal(t, 17, admitted, "the first, and a row of 16")
		if holdsBack {
			require.Len(t, r.QP.HeldBack, 1)
		}

		// Time alone is not enough, while so many messages of former ones are here.
		r.Advance(time.Second)
		require.EqualValues(t, admitted, c.Unexpected)

		// Others are not concerned, also at the same host.
		first(t, r, 1, 8, 0x2000)
		first(t, r, 2, 7, 0x2000)
		require.EqualValues(t, admitted+2, c.Unexpected)

		for range packets + 2 {
			r.Recv(nil, 8, 0, 0, 0)
		}
		r.Run()
		require.Len(t, r.Outcomes, admitted+2)
		for range packets {
			r.Advance(connidEvery)
		}
		require.Len(t, r.Outcomes, packets+2)
		require.Empty(t, r.QP.HeldBack)
		require.Zero(t, c.Crowded)
		require.Zero(t, c.StaleConnID)
		require.NoError(t, r.Close())
	}
}

// connidEvery is how often a place may have one more endpoint.
const connidEvery = 10 * time.Millisecond

// TestPlaceHoards: what waits from a place that cannot be held back is bounded by PeerMemory and 64 MiB.
func TestPlaceHoards(t *testing.T) {
	r, err := script.Start(script.Config{Endpoint: set(settings.Settings{PeerMemory: 1 << 20})})
	require.NoError(t, err)
	r.Auto = true
	c := r.EP.Counters()
	const packets, each = 9000, 8192
	for id := range uint32(packets) {
		inject(t, r, script.NewRemote("x", 1, 7, 0x100+id), "EAGER_MSGRTM", "msg_id=0", fmt.Sprint("len=", each), "raw_addr")
		r.Run()
	}
	waited := int64(packets - c.Crowded - c.Unexpected)
	require.Greater(t, waited*(each+1<<10), int64(65<<20))
	require.Less(t, waited*each, int64(65<<20))
	require.NoError(t, r.Close())
}

// TestListedBehindNewcomers: an endpoint that the application has inserted does not wait for newcomers at its place that may not
// be let in, and nor does its device: the place is held back no more.
func TestListedBehindNewcomers(t *testing.T) {
	for _, speaks := range []bool{true, false} {
		r, err := script.Start(script.Config{Info: device.Info{HoldsBack: true}})
		require.NoError(t, err)
		r.Auto = true
		c := r.EP.Counters()
		for id := range uint32(100) {
			first(t, r, 1, 7, 0x100+id)
		}
		require.Len(t, r.QP.HeldBack, 1)
		was := c.Unexpected
		n := script.NewRemote("n", 1, 7, 0x9999)
		r.Insert(n)
		r.Run()
		require.Empty(t, r.QP.HeldBack)
		if !speaks {
			r.Send(n, 8, 0, 0, 0)
			r.Run()
			require.Len(t, r.Outcomes, 1)
		}
		inject(t, r, n, "EAGER_MSGRTM", "msg_id=0", "len=8", "raw_addr")
		r.Run()
		require.Equal(t, was+1, c.Unexpected)

		// Further ones wait behind those that do.
		for id := range uint32(100) {
			first(t, r, 1, 7, 0x300+id)
		}
		r.Advance(time.Second)
		require.Empty(t, r.QP.HeldBack)
		require.Equal(t, was+1, c.Unexpected)
		require.Zero(t, c.Crowded)
		require.NoError(t, r.Close())
	}
}

// TestNamelessWhileNewcomersWait: newcomers that are not let in have no HANDSHAKE of ours, so a packet that does not say who sent it
// is of the peer at their place, and does not wait. Their place stays held back while they are looked at again.
func TestNamelessWhileNewcomersWait(t *testing.T) {
	r, err := script.Start(script.Config{Info: device.Info{HoldsBack: true}})
	require.NoError(t, err)
	r.Auto = true
	c := r.EP.Counters()
	for id := range uint32(100) {
		first(t, r, 1, 7, 0x100+id)
	}
	const mark = "held back later"
	r.QP.HeldBack = append(r.QP.HeldBack, mark)
	r.Advance(10 * connidEvery)
	require.Len(t, r.QP.HeldBack, 2)
	require.Equal(t, mark, r.QP.HeldBack[1])

	was := c.Unexpected
	cur := script.NewRemote("cur", 1, 7, uint32(0x100+was-1))
	for range 2 { // HANDSHAKE of old releases, of which a second one goes nowhere
		inject(t, r, cur, "HANDSHAKE", "extra_info=0x0")
		r.Run()
	}
	inject(t, r, cur, "EAGER_MSGRTM", "msg_id=1", "len=8")
	r.Run()
	require.Equal(t, was+1, c.Unexpected)
	require.NoError(t, r.Close())
}

// TestHostHasItsShare: strangers of one host do not take the places of others'. What those that
// are beyond its share have sent is received all the same.
func TestHostHasItsShare(t *testing.T) {
	r, err := script.Start(script.Config{Endpoint: set(settings.Settings{MaxUnlistedPeers: 16}), Info: device.Info{HoldsBack: true}})
	require.NoError(t, err)
	r.Auto = true
	c := r.EP.Counters()
	for qpn := range uint16(100) {
		first(t, r, 1, 1+qpn, 0x100)
	}
	require.EqualValues(t, 100, c.Unexpected)
	require.EqualValues(t, 88, c.StrangersHeld)
	require.Len(t, r.QP.HeldBack, 88)
	for host := range byte(3) {
		first(t, r, 2+host, 1, 0x100)
		require.EqualValues(t, 101+int(host), c.Unexpected)
		require.EqualValues(t, 88, c.StrangersHeld)
	}
	require.Zero(t, c.Crowded)
	require.Equal(t, endpoint.StrangersCrowded, r.Events[13].Kind)

	// When their messages are received there is room.
	for range 103 {
		r.Recv(nil, 8, 0, 0, 0)
	}
	r.Run()
	require.Len(t, r.Outcomes, 103)
	for range 10 {
		r.Advance(overflowEvery)
	}
	require.Empty(t, r.QP.HeldBack)
	r.Advance(time.Second)
	require.Equal(t, endpoint.StrangersRelieved, r.Events[len(r.Events)-1].Kind)
	require.LessOrEqual(t, r.EP.Peers(), 16)
	require.NoError(t, r.Close())
}

// overflowEvery is how often an endpoint looks for room for those that it holds back.
const overflowEvery = 5 * time.Millisecond

// TestStrangersWhoLeft: those whose queue pair is gone are found out when others come, and
// take no places after PeerTimeout.
func TestStrangersWhoLeft(t *testing.T) {
	r, err := script.Start(script.Config{Endpoint: set(settings.Settings{PeerTimeout: 3 * time.Second})})
	require.NoError(t, err)
	for qpn := range uint16(100) {
		first(t, r, 1, 1+qpn, 0x100)
		r.Recv(nil, 8, 0, 0, 0)
		r.Run()
		for _, s := range r.QP.Flying() { // HANDSHAKE arrives, probes do not
			st := device.StatusOK
			if wire.Type(s.Bytes[0]) != wire.TypeHandshake {
				st = device.StatusBadDestQPN
			}
			r.QP.Complete(s, st)
		}
		r.Advance(time.Second)
	}
	require.Len(t, r.Outcomes, 100)
	require.Less(t, r.EP.Peers(), 10)
	require.NoError(t, r.Close())
}

// TestShareOfThoseWhoLeft: a host's share that those have who left at once is free again when
// more of that host come, and nobody else.
func TestShareOfThoseWhoLeft(t *testing.T) {
	set := settings.InForce{Settings: settings.Settings{PeerTimeout: 3 * time.Second, MaxUnlistedPeers: 16}}
	r, err := script.Start(script.Config{Endpoint: endpoint.Config{Settings: set}})
	require.NoError(t, err)
	left := func() {
		for _, s := range r.QP.Flying() { // HANDSHAKE arrives, probes do not
			st := device.StatusOK
			if wire.Type(s.Bytes[0]) != wire.TypeHandshake {
				st = device.StatusBadDestQPN
			}
			r.QP.Complete(s, st)
		}
		r.Run()
	}
	c := r.EP.Counters()
	for qpn := range uint16(16) {
		first(t, r, 1, 1+qpn, 0x100)
		left()
	}
	require.EqualValues(t, 16, c.Unexpected)
	require.EqualValues(t, 4, c.StrangersHeld)
	for range 16 {
		r.Recv(nil, 8, 0, 0, 0)
	}
	r.Run()
	r.Advance(time.Minute)
	for qpn := range uint16(10) {
		first(t, r, 1, 100+qpn, 0x200)
		left()
		r.Advance(time.Second)
	}
	require.EqualValues(t, 26, c.Unexpected)
	require.EqualValues(t, 4, c.StrangersHeld, "there is room for the later ones")
	require.NoError(t, r.Close())
}

// TestAwayAndLeft: strangers that have failed are evicted as others are, and forgotten once it turns out that they have
// left. So there is room for more.
func TestAwayAndLeft(t *testing.T) {
	for _, why := range []device.Status{device.StatusBadDestQPN, device.StatusUnresponsive} {
		r, err := script.Start(script.Config{
			Endpoint: set(settings.Settings{MaxUnlistedPeers: 4, PeerTimeout: 3 * time.Second, ProbeAfter: time.Second}),
		})
		require.NoError(t, err)
		probed := make(map[device.GID]bool)
		left := func() { // HANDSHAKE arrives, the first probe has another end than the later ones
			for _, s := range r.QP.Flying() {
				st := device.StatusOK
				if wire.Type(s.Bytes[0]) != wire.TypeHandshake {
					if st = device.StatusBadDestQPN; !probed[s.GID] {
						st = why
					}
					probed[s.GID] = true
				}
				r.QP.Complete(s, st)
			}
			r.Run()
		}
		c := r.EP.Counters()
		const newcomers = 250
		for host := range byte(newcomers) {
			r.Recv(nil, 8, 0, 0, 0)
			r.Run()
			first(t, r, 1+host, 1, 0x100)
			left()
			r.Advance(time.Second)
			left()
		}
		require.Len(t, r.Outcomes, newcomers)
		require.Less(t, c.StrangersHeld, uint64(newcomers/2), why)
		require.Less(t, r.EP.Peers(), 10, why)
		require.NoError(t, r.Close())
	}
}

// TestRoomIsMadeOnce: one stranger that is away makes room for one other, also if more come in
// the same turn.
func TestRoomIsMadeOnce(t *testing.T) {
	r, err := script.Start(script.Config{Info: device.Info{HoldsBack: true}, Endpoint: endpoint.Config{Settings: settings.InForce{Settings: settings.Settings{MaxUnlistedPeers: 4}}}})
	require.NoError(t, err)
	c := r.EP.Counters()
	r.Recv(nil, 8, 0, 0, 0)
	r.Run()
	inject(t, r, script.NewRemote("x", 1, 1, 0x100), "DC_EAGER_MSGRTM", "msg_id=0", "send_id=1", "len=8", "raw_addr")
	r.Run()
	for _, s := range r.QP.Flying() { // RECEIPT among them
		r.QP.Complete(s, device.StatusBadDestQPN)
	}
	r.Run()
	require.EqualValues(t, 1, c.PeersFailed)
	for host := range byte(3) {
		first(t, r, 2+host, 1, 0x100)
	}
	require.EqualValues(t, 3, c.Unexpected, "the lobby is full")
	for host := range byte(3) {
		x := script.NewRemote("y", 10+host, 1, 0x100)
		b, err := x.Packet([]string{"EAGER_MSGRTM", "msg_id=0", "len=8", "raw_addr"})
		require.NoError(t, err)
		require.True(t, r.QP.Arrive(x.Addr.GID(), x.Addr.QPN(), false, b))
	}
	r.Run()
	require.EqualValues(t, 6, c.Unexpected)
	require.EqualValues(t, 2, c.StrangersHeld)
	require.NoError(t, r.Close())
}

// TestManyOnTrial: many endpoints start again at their places before anything is known of their
// death, and send at once. Nothing is dropped, whether the device can hold one sender back or not.
func TestManyOnTrial(t *testing.T) {
	for _, holdsBack := range []bool{true, false} {
		r, err := script.Start(script.Config{Info: device.Info{HoldsBack: holdsBack}})
		require.NoError(t, err)
		c := r.EP.Counters()
		const places, each = 24, 20
		for qpn := range uint16(places) {
			first(t, r, 1, 1+qpn, 0x100)
		}
		complete(r)
		for qpn := range uint16(places) {
			for id := range each {
				inject(t, r, script.NewRemote("x", 1, 1+qpn, 0x200), "EAGER_MSGRTM", fmt.Sprintf("msg_id=%d", id), "len=8", "raw_addr")
				r.Run()
			}
		}
		require.EqualValues(t, places, c.Unexpected, "the rest is on trial")
		require.Equal(t, r.QP.RecvSlots(), r.QP.Posted(), "and takes no receives")
		if holdsBack {
			require.Len(t, r.QP.HeldBack, places)
		}
		complete(r) // HANDSHAKE to each
		require.EqualValues(t, places+places*each, c.Unexpected)
		require.Zero(t, c.Crowded)
		require.Empty(t, r.QP.HeldBack)
		require.NoError(t, r.Close())
	}
}

// complete has arrive what is with the device.
func complete(r *script.Rig) {
	for _, s := range r.QP.Flying() {
		r.QP.Complete(s, device.StatusOK)
	}
	r.Run()
}

// TestTrialEnds: HANDSHAKE to a newcomer neither arrives nor is refused. After two seconds the one of
// the two of whom the last packet came is taken to be there, whatever is in progress with the other one.
func TestTrialEnds(t *testing.T) {
	for _, x := range []struct {
		name       string
		formerLast bool
		ours       bool
	}{
		{name: "the newcomer was heard last"},
		{name: "the peer at its place was heard last", formerLast: true},
		{name: "we begin an operation with the peer at its place", ours: true},
	} {
		r, err := script.Start(script.Config{})
		require.NoError(t, err)
		c := r.EP.Counters()
		a := script.NewRemote("x", 1, 7, 0x100)
		r.Insert(a)
		first(t, r, 1, 7, 0x100)
		complete(r)
		r.Recv(a, 8, 0, 0, 0)
		r.Advance(10 * time.Second)
		first(t, r, 1, 7, 0x200)
		r.Advance(time.Millisecond)
		if x.formerLast {
			inject(t, r, a, "EAGER_MSGRTM", "msg_id=1", "len=8", "raw_addr")
			r.Run()
		}
		if x.ours {
			r.Recv(a, 8, 0, 0, 0) // it waits, so the peer is watched
			r.Run()
		}
		r.Advance(1980 * time.Millisecond)
		require.EqualValues(t, 1+btoi(x.formerLast), c.Unexpected, x.name)
		r.Advance(20 * time.Millisecond)
		require.EqualValues(t, 2, c.Unexpected, x.name)
		require.EqualValues(t, btoi(x.formerLast), c.StaleConnID, x.name)
		require.NoError(t, r.Close())
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestTrialCounts: packets that wait count towards TotalMemory, above which all senders are throttled.
func TestTrialCounts(t *testing.T) {
	r, err := script.Start(script.Config{Endpoint: set(settings.Settings{TotalMemory: 40 << 10})})
	require.NoError(t, err)
	first(t, r, 1, 7, 0x100)
	complete(r)
	for id := range 100 {
		inject(t, r, script.NewRemote("x", 1, 7, 0x200), "EAGER_MSGRTM", fmt.Sprintf("msg_id=%d", id), "len=8", "raw_addr")
		r.Run()
	}
	require.Equal(t, endpoint.MemoryPressure, r.Events[len(r.Events)-1].Kind)
	complete(r)
	require.Zero(t, r.EP.Counters().Crowded)
	require.EqualValues(t, 101, r.EP.Counters().Unexpected)
	require.NoError(t, r.Close())
}
