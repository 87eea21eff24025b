package suite

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/bench/internal/merge"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/stream/flow"
)

func names(s *Suite, pattern string) (list []string) {
	for _, c := range s.Cases(regexp.MustCompile(pattern)) {
		list = append(list, c.Name)
	}
	return list
}

// TestCases: names are unique, every case has something of efactor's, and a short run is a
// part of a whole one.
func TestCases(t *testing.T) {
	all, short := names(&Suite{}, ""), names(&Suite{Short: true}, "")
	assert.Subset(t, all, short)
	assert.Less(t, len(short), len(all)/2)
	seen := map[string]bool{}
	for _, c := range (&Suite{}).Cases(regexp.MustCompile("")) {
		assert.False(t, seen[c.Name], c.Name)
		seen[c.Name] = true
		assert.NotEmpty(t, c.Ours, c.Name)
		assert.NotEmpty(t, c.Unit, c.Name)
	}
	for _, name := range []string{
		"latency/shm/8B", "latency/shm/64KiB", "latency/shm/16MiB", "rate/shm/8B", "rate/shm/8B/window256", "bandwidth/shm/1MiB",
		"bandwidth/shm/both/1MiB", "latency/tcp/8B", "bandwidth/tcp/1MiB", "request/shm/8B", "match/8192", "match/unexpected/65536", "match/each/65536",
		"match/each/unexpected/random/8192",
		"start/shm/8B", "start/shm/ranks8", "idle/shm/peers16", "cpu/request/8B", "memory/peers10000", "idle/shm", "allreduce/2/1MiB",
	} {
		assert.Contains(t, all, name)
	}
	assert.Equal(t, []string{"match/8192", "match/unexpected/8192"}, names(&Suite{}, "match/(unexpected/)?8192"))
}

// TestAimed: what is to be reached is measured.
func TestAimed(t *testing.T) {
	measured := map[string]bool{}
	for _, c := range (&Suite{Emulator: []string{"emulator"}}).Cases(regexp.MustCompile("")) {
		for _, x := range c.Ours {
			measured[c.Name+x.Name] = true
		}
	}
	for _, name := range append(merge.Figures.Cases(), merge.Waiting.Cases()...) {
		assert.True(t, measured[name], name)
	}
}

// TestToward: what aims are of is measured beside the peers that they name, and nothing else is.
func TestToward(t *testing.T) {
	var got []string
	s := new(Suite)
	for _, c := range s.Toward(merge.Waiting, regexp.MustCompile("^(request|idle|json/64KiB|rate/shm)")) {
		for _, x := range c.Ours {
			got = append(got, c.Name+x.Name)
		}
		require.Len(t, c.Peers, 1, c.Name)
		assert.Equal(t, "go-unix", c.Peers[0].Name, c.Name)
	}
	assert.Equal(t, []string{
		"request/shm/think/20us", "request/shm/think/100us",
		"request/shm/think/500us", "request/shm/think/500us/manual", "request/shm/think/500us/pinned", "request/shm/think/5ms",
		"request/shm/think/20us/busy", "request/shm/think/100us/busy", "request/shm/think/500us/busy", "request/shm/think/5ms/busy",
		"json/64KiB", "json/64KiB/conns8", "json/64KiB/local", "idle/shm", "idle/shm/peers16",
	}, got)
}

// TestRounds: cases beside the main ones have fewer rounds, unless the caller has chosen.
func TestRounds(t *testing.T) {
	rounds := func(s *Suite) map[string]int {
		m := map[string]int{}
		for _, c := range s.Cases(regexp.MustCompile("")) {
			m[c.Name] = c.RoundsOf(5)
		}
		return m
	}
	m := rounds(new(Suite))
	for name, want := range map[string]int{
		"latency/shm/8B": 5, "latency/shm/16KiB": 5, "latency/shm/64B": 3, "rate/shm/8B": 5, "rate/shm/8B/window4": 3,
		"allreduce/2/4KiB": 5, "allreduce/4/8B": 3, "allocations/shm": 1, "idle/shm": 5,
	} {
		assert.Equal(t, want, m[name], name)
	}
	for name, n := range rounds(&Suite{Rounds: true}) {
		assert.Equal(t, 5, n, name)
	}
}

// TestPeers: a peer is in the cases of its way that it has something for.
func TestPeers(t *testing.T) {
	play := func(context.Context, int, int) (peers.Trip, error) { return peers.Trip{Half: 2}, nil }
	s := Suite{Peers: []peers.Peer{{Name: "a", Way: peers.SHM, PingPong: play}, {Name: "b", Way: peers.TCP, PingPong: play}, {Name: "c", Way: peers.SHM}}}
	c := s.latency(peers.SHM, 8)
	require.Len(t, c.Peers, 1)
	assert.Equal(t, "a", c.Peers[0].Name)
	x, err := c.Peers[0].Run(t.Context(), 1)
	require.NoError(t, err)
	assert.InDelta(t, 2, x.Value, 1e-9)
	assert.Equal(t, 4*time.Microsecond, x.Each)
}

// TestFan: so are those that several senders are measured with.
func TestFan(t *testing.T) {
	play := func(_ context.Context, senders int, p flow.Plan) (*flow.Result, error) {
		return &flow.Result{Count: p.Count, Nanos: []int64{int64(1000 * p.Count * senders)}}, nil
	}
	s := Suite{Peers: []peers.Peer{{Name: "a", Way: peers.SHM, Fan: play}, {Name: "b", Way: peers.SHM}}}
	list := s.fan()
	require.Len(t, list, 4)
	require.Len(t, list[2].Peers, 1)
	x, err := list[2].Peers[0].Run(t.Context(), 100)
	require.NoError(t, err)
	assert.InDelta(t, 1, x.Value, 1e-9) // M/s, of all 8 together
	assert.Equal(t, 8*time.Microsecond, x.Each)
}

// TestPlans: every stream can be done.
func TestPlans(t *testing.T) {
	s := new(Suite)
	for _, size := range []int{8, 64 << 10, 16 << 20} {
		p := complete(flow.Plan{Size: size})
		p.Messages(1)
		assert.NoError(t, p.Check(), size)
		assert.LessOrEqual(t, p.Window*size, 64<<20)
	}
	assert.Equal(t, "auto", s.mode("auto"))
	s.Progress = "pinned"
	assert.Equal(t, "pinned", s.mode("auto"))
}
