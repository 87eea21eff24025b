package suite

import (
	"context"

	"github.com/efactor/efactor/bench/internal/echo"
	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/trial"
)

// actors is what messages between actors of two processes take, by api/remote and by protoactor-go's own
// remote, and between two of one process.
func (s *Suite) actors() []trial.Case {
	request := trial.Case{Name: "latency/remote/request", Unit: "us", Pilot: pilotTrips}
	rate := trial.Case{Name: "rate/remote/oneway", Unit: "M/s", Higher: true, Pilot: pilots}
	for i, e := range echo.Actors {
		asks := s.ask(e.Name, question, 0, func(r *job.Result) float64 { return r.Nanos * usec })
		sends := s.oneWay(e.Name)
		if i == 0 {
			asks.Name, sends.Name = "", ""
			request.Ours, rate.Ours = []trial.Contestant{asks}, []trial.Contestant{sends}
			continue
		}
		request.Peers, rate.Peers = append(request.Peers, asks), append(rate.Peers, sends)
	}
	return []trial.Case{request, rate}
}

// oneWay is a contestant for messages without an answer.
func (s *Suite) oneWay(system string) trial.Contestant {
	return trial.Contestant{Name: system, Run: func(ctx context.Context, n int) (trial.Sample, error) {
		j := job.Job{Kind: job.Ask, Echo: echo.Plan{System: system, Size: question, Warm: warm(n), Count: n, Stream: true}}
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: 1e3 / r.Nanos, Each: duration(r.Nanos)}, nil
	}}
}
