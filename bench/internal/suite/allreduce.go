package suite

import (
	"context"
	"fmt"

	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
)

// fewRounds are those of cases that take long.
const fewRounds = 3

// allreduce is the time of a call with float32 over shm. Four ranks are more than many
// machines have cores, so that waiting ranks keep others from running.
func (s *Suite) allreduce() (list []trial.Case) {
	for _, ranks := range s.pick([]int{2, 4}, []int{2}) {
		for _, size := range s.pick([]int{8, 4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20}, []int{8, 1 << 20}) {
			c := trial.Case{Name: fmt.Sprintf("allreduce/%d/%s", ranks, bytes(size)), Unit: "us", Pilot: 10}
			if ranks > 2 {
				c.Rounds, c.Pilot = fewRounds, 4
			}
			c.Ours = []trial.Contestant{s.ourAllreduce(ranks, size)}
			for i := range s.Peers {
				p := &s.Peers[i]
				if p.Allreduce == nil {
					continue
				}
				c.Peers = append(c.Peers, trial.Contestant{Name: p.Name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
					t, err := p.Allreduce(ctx, ranks, size, n)
					return trial.Sample{Value: float64(t) * usec, Each: t}, err
				}})
			}
			list = append(list, c)
		}
	}
	return list
}

func (s *Suite) ourAllreduce(ranks, size int) trial.Contestant {
	return trial.Contestant{Run: func(ctx context.Context, n int) (trial.Sample, error) {
		j := job.Job{
			Kind: job.Allreduce, Device: peers.SHM, Progress: s.mode("auto"), Ranks: ranks, Size: size, Warm: warm(n), Count: n,
		}
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: r.Nanos * usec, Each: duration(r.Nanos)}, nil
	}}
}
