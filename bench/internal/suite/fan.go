package suite

import (
	"context"
	"errors"
	"fmt"

	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
	"github.com/efactor/efactor/bench/stream/flow"
)

// fan is messages per second from several processes to one, all together. They are soon
// more than there are cores.
func (s *Suite) fan() (list []trial.Case) {
	for _, senders := range s.pick([]int{2, 4, 8, 16}, nil) {
		p := complete(flow.Plan{Size: question})
		c := trial.Case{
			Name: fmt.Sprintf("rate/shm/%s/peers%d", bytes(p.Size), senders), Unit: "M/s", Higher: true, Size: p.Size,
			Pilot: p.Batch, Rounds: fewRounds,
		}
		sample := func(r *flow.Result, err error) (trial.Sample, error) {
			if err != nil {
				return trial.Sample{}, err
			}
			rate := r.Rate()
			return trial.Sample{Value: rate * float64(senders) * 1e-6, Each: duration(1e9 / rate)}, nil
		}
		c.Ours = []trial.Contestant{{Run: func(ctx context.Context, n int) (trial.Sample, error) {
			j := job.Job{Kind: job.Fan, Device: peers.SHM, Progress: s.mode("auto"), Ranks: senders + 1, Plan: p}
			j.Plan.Messages(n)
			r, err := j.Run(ctx, s.Self)
			if err != nil {
				return trial.Sample{}, err
			}
			if r.Flow == nil {
				return trial.Sample{}, errors.New("streams without a result")
			}
			return sample(r.Flow, r.Flow.Check(&j.Plan))
		}}}
		for i := range s.Peers {
			peer := &s.Peers[i]
			if peer.Fan == nil {
				continue
			}
			c.Peers = append(c.Peers, trial.Contestant{Name: peer.Name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
				q := p
				q.Messages(n)
				return sample(peer.Fan(ctx, senders, q))
			}})
		}
		list = append(list, c)
	}
	return list
}
