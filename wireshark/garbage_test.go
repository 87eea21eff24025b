package wireshark_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/internal/wiretext"
	"github.com/efactor/efactor/wire"
)

// broken reports whether package wire would refuse a packet.
func broken(b []byte) bool {
	pkt, n, err := wire.Decode(b)
	if err != nil {
		return true
	}
	_, whole := wiretext.Payload(pkt, b[n:])
	return !whole
}

// judge dissects packets, and checks that those are marked that package wire refuses.
func judge(t *testing.T, packets [][]byte) (bad int) {
	t.Helper()
	rec := newRecording(t)
	for i, b := range packets {
		from, to := alice, bob
		if i%3 == 0 { // links are looked for in both directions
			from, to = bob, alice
		}
		rec.bytes(i%5 != 0, from, to, b)
	}
	file := rec.save()
	frames := dissect(t, file)
	require.Len(t, frames, len(packets))
	for i, f := range frames {
		require.Equal(t, broken(packets[i]), f.has("malformed"), "%x: %s", packets[i], wiretext.Summary(packets[i]))
		require.Equal(t, 64+len(packets[i]), tile(t, f.Fields, 0), "%x", packets[i])
		if f.has("malformed") {
			bad++
		}
	}
	rows := columns(t, file, "efa_rdm.malformed", "_ws.col.Info", "_ws.expert.group", "_ws.expert.severity")
	require.Len(t, rows, bad)
	for _, row := range rows {
		require.Contains(t, row[0], "[Malformed: ")
		require.Equal(t, []string{"117440512", "8388608"}, []string{row[1], row[2]}, "PI_MALFORMED, PI_ERROR")
	}
	return bad
}

// TestTruncated cuts every type of packet at every length, in the short form at every fourth.
func TestTruncated(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	step, least := 1, 1500
	if testenv.Short() {
		step, least = 4, 400
	}
	var packets [][]byte
	for _, k := range kinds {
		p := fill(t, rng, k)
		b := withData(rng, p)
		for n := 0; n < min(len(p.Append(nil))+3, len(b)); n += step {
			packets = append(packets, b[:n])
		}
	}
	bad := judge(t, packets)
	require.Greater(t, bad, least)
	require.Less(t, bad, len(packets))
}

// TestGarbage dissects noise: of its own, behind a base header that is right, and in
// packets that were right before.
func TestGarbage(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
			if rng.IntN(3) == 0 {
				b[i] = []byte{0, 1, 0xff, 0x80, 4}[rng.IntN(5)]
			}
		}
		return b
	}
	packets := [][]byte{{}}
	for i := range 256 {
		for range 4 {
			b := noise(4 + rng.IntN(200))
			b[0] = byte(i)
			if rng.IntN(8) > 0 {
				b[1] = wire.Version
			}
			packets = append(packets, b)
		}
		packets = append(packets, noise(rng.IntN(200)))
	}
	for range 20 {
		for _, k := range kinds {
			b := withData(rng, fill(t, rng, k))
			for range 1 + rng.IntN(4) {
				b[2+rng.IntN(min(40, len(b)-2))] ^= 1 << rng.IntN(8)
			}
			packets = append(packets, b)
		}
	}
	bad := judge(t, packets)
	require.Greater(t, bad, 1000)
	require.Less(t, bad, len(packets)-500)
}

// TestShortFrames: a frame without room for the addresses is malformed.
func TestShortFrames(t *testing.T) {
	var frames []snapped
	for n := range 64 {
		frames = append(frames, snapped{make([]byte, n), n})
	}
	for i, f := range dissect(t, savePcap(t, frames)) {
		require.True(t, f.has("malformed"), "%d bytes", i)
	}
}

// TestSnapped: of packets that the capture has only in part nothing is held against
// the sender; lengths are those on the wire, and links are found if the headers are
// there.
func TestSnapped(t *testing.T) {
	var frames []snapped
	add := func(have int, p wire.Packet, data int) {
		b := append(slices.Clone(alice[:]), bob[:]...)
		b = append(p.Append(b), make([]byte, data)...)
		frames = append(frames, snapped{b, min(have, len(b))})
	}
	const first, last = 64, 350
	for have := first; have <= last; have++ {
		id := uint32(have)
		raw := wire.Options{HasRawAddr: true, RawAddr: alice}
		add(have, &wire.MediumRTM{MsgID: id, MsgLength: 400}, 200)
		add(have, &wire.MediumRTM{MsgID: id, MsgLength: 400, SegOffset: 200}, 200)
		add(have, &wire.RTR{RMAIOVCount: 4}, 0)
		add(have, &wire.RTA{RMAIOVCount: 1, Kind: wire.RTACompare, Options: raw}, 16)
		add(have, &wire.Handshake{Features: wire.Features{3: 1}, HasP2P: true}, 0)
	}
	rows := columns(t, savePcap(t, frames), "efa_rdm", "_ws.col.Info", "efa_rdm.len", "efa_rdm.message.missing", "efa_rdm.malformed")
	require.Len(t, rows, len(frames))
	cut := 0
	for i, row := range rows {
		f := frames[i]
		require.Empty(t, row[3], "%d: %s", f.have, row[0])
		require.Equal(t, f.have < len(f.bytes), strings.Contains(row[0], "[cut short by the capture]"), "%d: %s", f.have, row[0])
		if f.have < len(f.bytes) {
			cut++
		}
		if i%5 < 2 && f.have >= 64+wire.MediumMsgRTMLen {
			require.Equal(t, []string{"200", "0"}, row[1:3], "%d", f.have)
		}
	}
	require.Greater(t, cut, 500)
}
