package suite

import (
	"context"

	"github.com/efactor/efactor/bench/internal/echo"
	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
)

const pilotTrips = 50

// latencySHM is half a round trip between two processes, from memory of Alloc and from
// plain slices.
func (s *Suite) latencySHM() (list []trial.Case) {
	for _, size := range s.pick(
		[]int{8, 1, 64, 512, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20},
		[]int{8, 4 << 10, 64 << 10, 1 << 20}) {
		c := s.latency(peers.SHM, size)
		j := job.Job{Device: peers.SHM, Progress: s.mode("manual"), Size: size}
		plain := s.pingPong("/slice", j, false)
		j.Alloc = true
		c.Ours = []trial.Contestant{s.pingPong("", j, true), plain}
		list = append(list, c)
	}
	return list
}

// latencyTCP is the same over loopback, beside plain TCP.
func (s *Suite) latencyTCP() (list []trial.Case) {
	for _, size := range s.pick([]int{8, 4 << 10, 64 << 10, 1 << 20}, []int{8, 64 << 10, 1 << 20}) {
		c := s.latency(peers.TCP, size)
		j := job.Job{Device: peers.TCP, Progress: s.mode("manual"), Size: size}
		plain := s.pingPong("/slice", j, false)
		j.Alloc = true
		c.Ours = []trial.Contestant{s.pingPong("", j, true), plain}
		c.Peers = append(c.Peers, s.plainTCP(size))
		list = append(list, c)
	}
	return list
}

// latency is a case with the peers of a way.
func (s *Suite) latency(way string, size int) trial.Case {
	c := trial.Case{Name: "latency/" + way + "/" + bytes(size), Unit: "us", Size: size, Pilot: pilotTrips}
	for i := range s.Peers {
		if p := &s.Peers[i]; p.Way == way && p.PingPong != nil {
			c.Peers = append(c.Peers, trips(p, size))
		}
	}
	return c
}

// plainTCP is half a round trip of package echo's TCP.
func (s *Suite) plainTCP(size int) trial.Contestant {
	return s.ask(echo.TCP, size, 0, func(r *job.Result) float64 { return r.Nanos / 2 * usec })
}

// ask is a contestant of package echo, with what the result is for the case.
func (s *Suite) ask(system string, size, idle int, value func(*job.Result) float64) trial.Contestant {
	return trial.Contestant{Name: system, Run: func(ctx context.Context, n int) (trial.Sample, error) {
		j := job.Job{Kind: job.Ask, Echo: echo.Plan{System: system, Size: size, Warm: warm(n), Count: n, Idle: milliseconds(idle)}}
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: value(r), Each: duration(r.Nanos)}, nil
	}}
}
