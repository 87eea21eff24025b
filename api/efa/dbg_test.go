package efa_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

func TestDbg(t *testing.T) {
	for name, dev := range devices {
		for _, what := range []string{"w", "r", "wr"} {
			t.Run(name+what, func(t *testing.T) {
				a, b := lab{dev: dev, ep: efa.EndpointConfig{Protocol: efa.ProtocolConfig{PeerTimeout: 2 * time.Second}}}.open(t)
				for i := range 10 {
					m, err := b.dom.Alloc(1<<20, remote)
					require.NoError(t, err)
					buf := make([]byte, 1<<20)
					var ops []*efa.Op
					if what != "r" {
						ops = append(ops, start(t, a, &efa.WriteReq{To: a.peer, At: m.Remote(), Buf: buf, Level: efa.Delivered}))
					}
					if what != "w" {
						ops = append(ops, start(t, a, &efa.ReadReq{From: a.peer, At: m.Remote(), Buf: make([]byte, 1<<20)}))
					}
					require.NoError(t, m.Close())
					for _, op := range ops {
						t0 := time.Now()
						c, err := op.Wait(testContext(t))
						t.Log(i, err, c.Protocol, time.Since(t0).Round(time.Millisecond))
					}
				}
				ctx, c := context.WithTimeout(context.Background(), 3*time.Second)
				defer c()
				op := start(t, a, &efa.SendReq{To: a.peer})
				_, err := b.ep.Recv(ctx, nil)
				t.Log("recv", err)
				_, err = op.Wait(ctx)
				t.Log("send", err)
				for _, s := range []*side{a, b} {
					for {
						ev, ok := s.ep.TryEvent()
						if !ok {
							break
						}
						t.Logf("%v %v", ev.Kind, ev.Err)
					}
					st, err := s.ep.Stats(ctx)
					t.Log(st["BadID"], err)
				}
			})
		}
	}
}
