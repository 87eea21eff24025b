package suite

import (
	"context"

	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
)

// alone are the figures of two endpoints in one process: a message of 8 bytes on one shard,
// and how many allocations an operation makes, over each device without TLS.
func (s *Suite) alone() []trial.Case {
	eager := trial.Case{Name: "eager/sim/8B", Unit: "us", Pilot: pilotTrips}
	eager.Ours = []trial.Contestant{{Run: func(ctx context.Context, n int) (trial.Sample, error) {
		r, err := (&job.Job{Kind: job.Eager, Size: question, Warm: warm(n), Count: n}).Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: r.Nanos * usec, Each: duration(r.Nanos)}, nil
	}}}
	return []trial.Case{eager, s.allocations("sim", s.Self), s.allocations(peers.SHM, s.Self), s.allocations(peers.TCP, s.Self)}
}

// allocations is the most that an operation of any subprotocol makes, both sides together;
// those that make any are named beside it. The program may be a command that starts it.
func (s *Suite) allocations(device string, program ...string) trial.Case {
	c := trial.Case{Name: "allocations/" + device, Unit: "/op", Rounds: 1, Zero: true}
	c.Ours = []trial.Contestant{{Run: func(ctx context.Context, _ int) (trial.Sample, error) {
		r, err := (&job.Job{Kind: job.Allocations, Device: device}).Run(ctx, program...)
		if err != nil {
			return trial.Sample{}, err
		}
		return mostAllocations(r.Allocs), nil
	}}}
	return c
}

func mostAllocations(by map[string]float64) trial.Sample {
	x := trial.Sample{Tails: map[string]float64{}}
	for name, n := range by {
		if n > 0 {
			x.Tails[name] = n
		}
		x.Value = max(x.Value, n)
	}
	return x
}
