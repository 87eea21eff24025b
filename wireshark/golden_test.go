package wireshark_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/wire"
)

// captured is a packet of real libfabric.
type captured struct {
	*golden.Packet
	scenario *golden.Scenario
	bytes    []byte // at full length
}

func (c *captured) String() string {
	return c.scenario.Libfabric + " " + c.scenario.Name + ": " + c.Type + " during " + c.Op
}

// goldenCapture makes one capture of all scenarios.
func goldenCapture(t *testing.T) (file string, all []captured) {
	t.Helper()
	scenarios, err := golden.Load()
	require.NoError(t, err)
	rec := newRecording(t)
	for i := range scenarios {
		s := &scenarios[i]
		for j := range s.Packets {
			p := &s.Packets[j]
			if p.Hex == nil {
				continue
			}
			from, to := wire.RawAddr(s.RawAddr["A"]), wire.RawAddr(s.RawAddr["B"])
			if p.From == "B" {
				from, to = to, from
			}
			if p.DstQPN != nil {
				to = wire.MakeRawAddr(to.GID(), uint16(*p.DstQPN), p.DstQKey)
			}
			c := captured{p, s, append([]byte(p.Hex), make([]byte, p.Len-len(p.Hex))...)}
			rec.bytes(true, from, to, c.bytes)
			all = append(all, c)
		}
	}
	return rec.save(), all
}

// TestGolden: every packet that real libfabric sent is dissected as package wire
// decodes it, every answer has its request in the same scenario, and no message lacks
// a byte.
func TestGolden(t *testing.T) {
	file, all := goldenCapture(t)
	frames := dissect(t, file)
	require.Len(t, frames, len(all))
	headerless, linked, messages := 0, map[string]int{}, 0
	for i, f := range frames {
		c := &all[i]
		for _, name := range []string{"malformed", "repost", "copy_of", "beyond_message", "zero_recv_length", "no_request", "trailer"} {
			require.False(t, f.has(name), "%v: %s", c, name)
		}
		if c.Type == golden.Headerless {
			require.True(t, f.has("headerless"), "%v", c)
			require.Equal(t, []uint64{uint64(c.Len)}, f.numbers(t, "len"), "%v", c)
			headerless++
			continue
		}
		compare(t, f, c.bytes)
		if f.has("message.length") && c.Op != "" { // some scenarios begin with unfinished operations
			require.Equal(t, []uint64{0}, f.numbers(t, "message.missing"), "%v", c)
			messages++
		}
		typ := wire.Type(c.bytes[0])
		if typ.IsREQ() {
			continue
		}
		to := f.numbers(t, "response_to")
		require.Len(t, to, 1, "%v", c)
		require.Same(t, c.scenario, all[to[0]-1].scenario, "%v", c)
		linked[typ.String()]++
		if typ == wire.TypeHandshake {
			continue
		}
		request := f.numbers(t, "request")
		require.Len(t, request, 1, "%v", c)
		require.True(t, wire.Type(all[request[0]-1].bytes[0]).IsREQ(), "%v", c)
		require.Equal(t, c.Op, all[request[0]-1].Op, "%v", c)
	}
	require.Equal(t, 3, headerless)
	require.Equal(t, map[string]int{
		"CTS": 104, "CTSDATA": 329, "READRSP": 32, "EOR": 57, "ATOMRSP": 34, "HANDSHAKE": 284, "RECEIPT": 67, "READ_NACK": 5,
	}, linked)
	require.Greater(t, messages, 600)
}
