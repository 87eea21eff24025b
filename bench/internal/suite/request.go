package suite

import (
	"context"
	"time"

	"github.com/efactor/efactor/bench/internal/echo"
	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
)

// question is the size of a request and its reply.
const question = 8

func milliseconds(n int) time.Duration { return time.Duration(n) * time.Millisecond }

// request is the time of a question and its answer, between processes that wait by
// spinning, and between such that sleep, as programs with other work do.
func (s *Suite) request() (list []trial.Case) {
	for _, way := range []struct{ name, device, mode string }{
		{"shm", peers.SHM, "manual"}, {"shm/auto", peers.SHM, "auto"}, {"tcp/auto", peers.TCP, "auto"},
	} {
		if s.Short && way.mode == "auto" {
			continue
		}
		c := trial.Case{Name: "request/" + way.name + "/" + bytes(question), Unit: "us", Pilot: pilotTrips}
		j := job.Job{Device: way.device, Progress: s.mode(way.mode), Size: question}
		c.Ours = []trial.Contestant{s.pair(j, func(r *job.Result) float64 { return r.Nanos * usec })}
		for _, e := range echo.Systems {
			c.Peers = append(c.Peers, s.ask(e.Name, question, 0, func(r *job.Result) float64 { return r.Nanos * usec }))
		}
		list = append(list, c)
	}
	return list
}

// pair is efactor's contestant with what the result is for the case.
func (s *Suite) pair(j job.Job, value func(*job.Result) float64) trial.Contestant {
	return trial.Contestant{Run: func(ctx context.Context, n int) (trial.Sample, error) {
		j := j
		j.Kind, j.Warm, j.Count = job.PingPong, warm(n), n
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: value(r), Each: duration(r.Nanos)}, nil
	}}
}
