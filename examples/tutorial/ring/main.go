// Ring passes a message around the ranks of a job.
package main

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
)

func main() { local.Run(4, around) }

func around(ctx context.Context, g *launch.Group) error {
	next := g.Peers[(g.Rank+1)%g.Size]
	if g.Rank == 0 {
		if err := g.Endpoint.Send(ctx, next, []byte("0")); err != nil {
			return err
		}
	}
	buf := make([]byte, 100)
	m, err := g.Endpoint.Recv(ctx, buf)
	if err != nil {
		return err
	}
	if g.Rank == 0 {
		fmt.Printf("%s, and back\n", buf[:m.N])
		return nil
	}
	return g.Endpoint.Send(ctx, next, fmt.Appendf(buf[:m.N], " -> %d", g.Rank))
}
