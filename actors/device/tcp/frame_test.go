package tcp

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// frames are all kinds with the bytes that they are on the wire.
var frames = []struct {
	name string
	f    frame
	hex  string
}{
	{
		"send",
		frame{kind: kindSend, length: 8760, token: 0x1122334455667788, qkey: 0xa1a2a3a4},
		"01000000 38220000 8877665544332211 a4a3a2a1 00000000",
	},
	{
		"send with immediate",
		frame{kind: kindSend, imm: true, token: 1, qkey: 2, data: 0x01020304},
		"01010000 00000000 0100000000000000 02000000 04030201",
	},
	{
		"read",
		frame{kind: kindRead, length: maxRDMA, token: 1, qkey: 2, rkey: 0x7172737475767778, addr: 0x7fff00112233},
		"02000000 00000400 0100000000000000 02000000 00000000 33221100ff7f0000 7877767574737271",
	},
	{
		"write",
		frame{kind: kindWrite, length: 5, token: 1, qkey: 2, rkey: 3, addr: 4},
		"03000000 05000000 0100000000000000 02000000 00000000 0400000000000000 0300000000000000",
	},
	{
		"write with immediate",
		frame{kind: kindWrite, imm: true, length: 5, token: 1, qkey: 2, rkey: 3, addr: 4, data: 6},
		"03010000 05000000 0100000000000000 02000000 06000000 0400000000000000 0300000000000000",
	},
	{"data", frame{kind: kindData, length: 0x20001, token: 9}, "04000000 01000200 0900000000000000"},
	{"status", frame{kind: kindStatus, token: 9, status: device.StatusBadAddress}, "05070000 00000000 0900000000000000"},
	{"ping", frame{kind: kindPing, token: 9}, "06000000 00000000 0900000000000000"},
	{"pong", frame{kind: kindPong, token: 9}, "07000000 00000000 0900000000000000"},
	{"bye", frame{kind: kindBye}, "08000000 00000000 0000000000000000"},
	{"bye for a reason", frame{kind: kindBye, status: device.StatusUnknownPeer}, "080e0000 00000000 0000000000000000"},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

func TestFrames(t *testing.T) {
	for _, c := range frames {
		t.Run(c.name, func(t *testing.T) {
			want := unhex(t, c.hex)
			require.Equal(t, want, c.f.appendTo([]byte{1, 2})[2:])
			var f frame
			n, err := f.parse(append(want, 0xff), DefaultMTU)
			require.NoError(t, err)
			require.Equal(t, len(want), n)
			require.Equal(t, c.f, f)
			for short := range want {
				n, err := f.parse(want[:short], DefaultMTU)
				require.NoError(t, err)
				require.Zero(t, n, "%d of %d bytes", short, len(want))
			}
		})
	}
}

func TestImpossibleFrames(t *testing.T) {
	for name, text := range map[string]string{
		"kind 0":                   "00000000 00000000 0100000000000000",
		"kind 9":                   "09000000 00000000 0100000000000000",
		"kind 255":                 "ff000000 00000000 0100000000000000",
		"third byte":               "06000100 00000000 0100000000000000",
		"fourth byte":              "06000001 00000000 0100000000000000",
		"flag of a ping":           "06010000 00000000 0100000000000000",
		"flag of a read":           "02010000 00000000 0100000000000000 02000000 00000000 0400000000000000 0300000000000000",
		"unknown flag":             "01040000 00000000 0100000000000000 02000000 00000000",
		"immediate of a message":   "01030000 00000000 0100000000000000 02000000 00000000",
		"begins, of a write":       "03020000 05000000 0100000000000000 02000000 00000000 0400000000000000 0300000000000000",
		"unknown flag, immediate":  "01050000 00000000 0100000000000000 02000000 00000000",
		"immediate without flag":   "01000000 00000000 0100000000000000 02000000 01000000",
		"packet above the mtu":     "01000000 39220000 0100000000000000 02000000 00000000",
		"longest packet":           "01000000 ffffffff 0100000000000000 02000000 00000000",
		"read of too much":         "02000000 01000400 0100000000000000 02000000 00000000 0400000000000000 0300000000000000",
		"write of too much":        "03000000 000000ff 0100000000000000 02000000 00000000 0400000000000000 0300000000000000",
		"immediate of a read":      "02000000 05000000 0100000000000000 02000000 01000000 0400000000000000 0300000000000000",
		"write without its flag":   "03000000 05000000 0100000000000000 02000000 01000000 0400000000000000 0300000000000000",
		"data of too much":         "04000000 01000400 0900000000000000",
		"status with bytes":        "05000000 01000000 0900000000000000",
		"bye that failed":          "08070000 00000000 0000000000000000",
		"bye with bytes":           "08000000 01000000 0900000000000000",
		"status that none is":      "05630000 00000000 0900000000000000",
		"status that only we give": "050d0000 00000000 0900000000000000",
	} {
		t.Run(name, func(t *testing.T) {
			var f frame
			_, err := f.parse(unhex(t, text), DefaultMTU)
			require.ErrorIs(t, err, errFrame)
		})
	}
}

// somePreamble has a value in every field.
func somePreamble() preamble {
	return preamble{
		lane: 1, lanes: 2, mtu: 8760, session: 0x1122334455667788,
		from: address{device.GID{15: 1}, 0x0102}, to: address{device.GID{15: 2}, 0x0304},
		keyed: true, qkey: 0xa1a2a3a4, meant: 0xb1b2b3b4, last: 7, alive: true,
	}
}

const somePreambleHex = "65667463 0300 06 00 0102 0000 38220000 8877665544332211" +
	"00000000000000000000000000000001 00000000000000000000000000000002" +
	"0201 0403 a4a3a2a1 0700000000000000 b4b3b2b1 00000000"

func TestPreamble(t *testing.T) {
	want := unhex(t, somePreambleHex)
	p := somePreamble()
	require.Equal(t, want, p.appendTo(nil))
	var got preamble
	require.NoError(t, got.parse(want))
	require.Equal(t, p, got)
	for short := range want {
		require.ErrorIs(t, got.parse(want[:short]), errPreamble)
	}
	for at, c := range map[int]struct {
		b    byte
		want error
	}{
		0: {'x', errPreamble}, 3: {'x', errPreamble}, 4: {1, errVersion}, 5: {1, errVersion},
		6: {8, errPreamble}, 7: {1, errPreamble}, 8: {3, errPreamble}, 9: {maxLanes + 1, errPreamble},
		10: {1, errPreamble}, 11: {1, errPreamble}, 76: {1, errPreamble}, 79: {1, errPreamble},
	} {
		b := unhex(t, somePreambleHex)
		b[at] = c.b
		require.ErrorIs(t, got.parse(b), c.want, "byte %d", at)
	}
	for name, change := range map[string]func(*preamble){
		"session 0":       func(p *preamble) { p.session = 0 },
		"from 0":          func(p *preamble) { p.from.qpn = 0 },
		"to 0":            func(p *preamble) { p.to.qpn = 0 },
		"no Q_Key":        func(p *preamble) { p.keyed, p.qkey = false, 0 },
		"secret Q_Key":    func(p *preamble) { p.reply, p.keyed = true, false },
		"none is alive":   func(p *preamble) { p.last = 0 },
		"verdict unknown": func(p *preamble) { p.reply, p.verdict = true, verdicts },
	} {
		bad := somePreamble()
		change(&bad)
		require.ErrorIs(t, got.parse(bad.appendTo(nil)), errPreamble, name)
	}
}

func TestGreeting(t *testing.T) {
	for v := range verdicts {
		got, err := parseGreeting(appendGreeting(nil, v))
		require.NoError(t, err)
		require.Equal(t, v, got)
	}
	for at, c := range map[int]struct {
		b    byte
		want error
	}{0: {'x', errPreamble}, 4: {9, errVersion}, 5: {1, errVersion}, 6: {uint8(verdicts), errPreamble}, 7: {1, errPreamble}} {
		b := appendGreeting(nil, taken)
		b[at] = c.b
		_, err := parseGreeting(b)
		require.ErrorIs(t, err, c.want, "byte %d", at)
	}
}

// FuzzFrame: no input makes the parser panic, and accepted input is what the other
// side could have sent.
func FuzzFrame(f *testing.F) {
	for _, c := range frames {
		f.Add(unhex(f, c.hex))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var got frame
		n, err := got.parse(b, DefaultMTU)
		if err != nil || n == 0 {
			return
		}
		require.Equal(t, b[:n], got.appendTo(nil))
		require.LessOrEqual(t, got.length, maxRDMA)
	})
}

func FuzzPreamble(f *testing.F) {
	f.Add(unhex(f, somePreambleHex))
	f.Fuzz(func(t *testing.T, b []byte) {
		var got preamble
		if got.parse(b) == nil {
			require.Equal(t, b, got.appendTo(nil))
		}
	})
}
