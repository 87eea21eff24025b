//go:build linux

package libfabric_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/interop/libfabric/agent"
	"github.com/efactor/efactor/interop/libfabric/native"
	"github.com/efactor/efactor/interop/libfabric/party"
)

// crowd is some libfabrics and some efactors on one fabric, which all know each
// other.
type crowd struct {
	dir    string
	agents []*agent.Agent
	nodes  []*native.Node
	all    []party.Party
	peers  map[[2]int]party.Peer // of the first, the handle of the second
}

func newCrowd(t *testing.T, ctx context.Context, e environment, agents, nodes int) *crowd {
	c := &crowd{dir: fabric(t), peers: map[[2]int]party.Peer{}}
	t.Cleanup(func() { c.end(t) })
	for i := range agents {
		a := startAgent(t, ctx, e, c.dir, fmt.Sprintf("libfabric %d", i))
		c.agents, c.all = append(c.agents, a), append(c.all, a)
	}
	for i := range nodes {
		n, err := native.New(native.Config{
			Name: fmt.Sprintf("efactor %d", i), Device: "shm:" + c.dir, Protocol: e.protocol,
		})
		require.NoError(t, err)
		c.nodes, c.all = append(c.nodes, n), append(c.all, n)
	}
	for _, x := range c.all {
		require.NoError(t, x.Open(ctx))
	}
	for i, x := range c.all {
		for j, y := range c.all {
			if i == j {
				continue
			}
			var err error
			c.peers[[2]int{i, j}], err = x.Insert(ctx, y.Address())
			require.NoError(t, err)
		}
	}
	return c
}

func (c *crowd) end(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	var err error
	for _, a := range c.agents {
		if t.Failed() {
			t.Log(a.Log())
		}
		err = errors.Join(err, a.Stop(ctx))
	}
	for _, n := range c.nodes {
		err = errors.Join(err, n.Stop())
	}
	err = errors.Join(err, os.RemoveAll(c.dir))
	if !t.Failed() {
		require.NoError(t, err)
	}
}

// TestManyPeers: all flood all others.
func TestManyPeers(t *testing.T) {
	need(t)
	for i, e := range []environment{settings[0].shuffled(11), settings[1]} {
		if brief() && i > 0 {
			break
		}
		t.Run(e.title(), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), floodTime)
			defer cancel()
			c := newCrowd(t, ctx, e, 3, 2)
			var duels []*duel
			for i := range c.all {
				for j := range i {
					duels = append(duels, &duel{
						number: len(duels) + 1, a: c.all[i], b: c.all[j], toB: c.peers[[2]int{i, j}], toA: c.peers[[2]int{j, i}],
						seed: uint64(100*i + j), n: 60, window: 6, most: 150000,
					})
				}
			}
			for _, d := range duels {
				d.begin(t, ctx)
			}
			for _, d := range duels {
				d.end(t, ctx)
			}
		})
	}
}
