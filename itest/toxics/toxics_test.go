//go:build linux

package toxics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/netlab"
	"github.com/efactor/efactor/internal/netlab/traffic"
	"github.com/efactor/efactor/internal/testenv"
)

const (
	// timeout is the hosts': those that are well may not be silent for as long on a busy machine.
	timeout = 5 * time.Second
	// soon is for what timeout ends. TCP's own have not expired by then.
	soon = 30 * time.Second

	patience = 90 * time.Second // with what takes a second, on a busy machine too
)

var directions = []string{"upstream", "downstream"}

func eachSecurity(t *testing.T, f func(t *testing.T, secret []byte)) {
	t.Helper()
	netlab.Require(t)
	t.Run("plain", func(t *testing.T) {
		testenv.Long(t, "TLS has more to lose")
		f(t, nil)
	})
	t.Run("TLS", func(t *testing.T) { f(t, []byte("of the hosts behind proxies")) })
}

func (p *pair) finish(t *testing.T, tell bool) (sent, failed int, longest time.Duration) {
	t.Helper()
	for _, h := range p.hosts {
		if tell {
			h.Stop()
		}
	}
	for _, h := range p.hosts {
		h.Stopped(patience)
	}
	return traffic.Check(t, p.hosts)
}

// Slices at any byte, little bandwidth and latency cost time alone.
func TestSlow(t *testing.T) {
	eachSecurity(t, func(t *testing.T, secret []byte) {
		p := newPair(t, secret, time.Minute, traffic.Job{Count: 150, Seed: 1, Block: 8 << 10})
		for _, px := range p.proxies {
			for _, d := range directions {
				px.add("slicer", d, map[string]int{"average_size": 700, "size_variation": 600, "delay": 20})
				px.add("latency", d, map[string]int{"latency": 2, "jitter": 1})
				px.add("bandwidth", d, map[string]int{"rate": 2000})
			}
		}
		traffic.Begin(p.hosts)
		_, failed, _ := p.finish(t, false)
		require.Zero(t, failed, "requests that failed")
	})
}

// Every connection ends after this many bytes, at any point: completed sends have
// arrived, nothing arrives twice, and memory is right.
func TestCutAgainAndAgain(t *testing.T) {
	eachSecurity(t, func(t *testing.T, secret []byte) {
		p := newPair(t, secret, timeout, traffic.Job{Seed: 2})
		limit := map[string]int{"bytes": 250_007}
		p.proxies[0].add("limit_data", "upstream", limit)
		p.proxies[1].add("limit_data", "downstream", limit)
		traffic.Begin(p.hosts)
		for range 5 {
			for i, h := range p.hosts {
				h.Down(1-i, false, patience)
				h.Down(1-i, true, patience)
			}
		}
		p.recover(t)
	})
}

// Connections are reset in the middle of the traffic.
func TestReset(t *testing.T) {
	eachSecurity(t, func(t *testing.T, secret []byte) {
		p := newPair(t, secret, timeout, traffic.Job{Seed: 4})
		traffic.Begin(p.hosts)
		for range 3 {
			for i, h := range p.hosts {
				h.Flowing(1-i, patience)
			}
			for _, px := range p.proxies {
				px.add("reset_peer", "downstream", map[string]int{"timeout": 0})
			}
			p.down(t)
			for _, px := range p.proxies {
				px.clear()
			}
			for i, h := range p.hosts {
				h.Down(1-i, true, patience)
			}
		}
		p.recover(t)
	})
}

// down waits until both hosts have lost each other, in time.
func (p *pair) down(t *testing.T) {
	t.Helper()
	for i, h := range p.hosts {
		d := h.Down(1-i, false, soon)
		assert.NotEmpty(t, d.Status)
	}
}

// recover takes the toxics away: then all is well.
func (p *pair) recover(t *testing.T) {
	t.Helper()
	for _, px := range p.proxies {
		px.clear()
	}
	for i, h := range p.hosts {
		h.Down(1-i, true, patience)
	}
	sent, failed, longest := p.finish(t, true)
	assert.Positive(t, failed)
	assert.Positive(t, sent)
	assert.LessOrEqual(t, longest, soon)
}

// Bytes vanish, in one direction or both, while the connections stay: that is noticed
// within the timeout, and when they flow again new sessions carry on.
func TestStall(t *testing.T) {
	for name, stalled := range map[string][]string{"both": directions, "one way": directions[:1]} {
		t.Run(name, func(t *testing.T) {
			eachSecurity(t, func(t *testing.T, secret []byte) {
				p := newPair(t, secret, timeout, traffic.Job{Seed: 3})
				traffic.Begin(p.hosts)
				for i, h := range p.hosts {
					h.Flowing(1-i, patience)
				}
				for _, px := range p.proxies {
					for _, d := range stalled {
						px.add("timeout", d, map[string]int{"timeout": 0})
					}
				}
				p.down(t)
				p.recover(t)
			})
		})
	}
}
