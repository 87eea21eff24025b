package suite

import (
	"context"
	"regexp"

	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
)

// Emulated reports whether cases that match need the emulator.
func (s *Suite) Emulated(names *regexp.Regexp) bool {
	with := *s
	with.Emulator = []string{""}
	for _, c := range with.emulated() {
		if names.MatchString(c.Name) {
			return true
		}
	}
	return false
}

// emulated are those of the EFA device, which the emulator makes of shared memory: half a
// round trip, in which the emulator's own waiting hides much of a driver, and
// so the CPU time of both processes for a message.
func (s *Suite) emulated() (list []trial.Case) {
	if len(s.Emulator) == 0 {
		return nil
	}
	command := append(s.Emulator[:len(s.Emulator):len(s.Emulator)], s.Self)
	run := func(size int, value func(*job.Result) float64) []trial.Contestant {
		return []trial.Contestant{{Run: func(ctx context.Context, n int) (trial.Sample, error) {
			j := job.Job{
				Kind: job.PingPong, Device: peers.EFA, Progress: s.mode("manual"), Size: size, Alloc: true, Warm: warm(n), Count: n,
			}
			r, err := j.Run(ctx, command...)
			if err != nil {
				return trial.Sample{}, err
			}
			return trial.Sample{Value: value(r), Each: duration(r.Nanos)}, nil
		}}}
	}
	for _, size := range s.pick([]int{8, 4 << 10, 1 << 20}, []int{8}) {
		c := s.latency(peers.EFA, size)
		c.Ours = run(size, func(r *job.Result) float64 { return r.Nanos / 2 * usec })
		list = append(list, c)
	}
	list = append(list, s.allocations(peers.EFA, command...))
	return append(list, trial.Case{
		Name: "cpu/efa/8B", Unit: "us", Pilot: pilotTrips, Ours: run(question, func(r *job.Result) float64 { return r.CPU * usec }),
	})
}
