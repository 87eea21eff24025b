package suite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/efactor/efactor/bench/internal/echo"
	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
	"github.com/efactor/efactor/bench/stream/flow"
)

const (
	// busy is how many processes compute beside, where they do.
	busy = 2
	// leastTimed is the least number of answers of which the 99th percentile is taken.
	leastTimed = 200
	// slow is for how long a slow receiver computes for each message.
	slow = 20 * time.Microsecond
)

// echoed has a plan of package echo done, with a figure as the value and all of them beside it.
func (s *Suite) echoed(name string, p echo.Plan, value func(*job.Result) float64) trial.Contestant {
	return trial.Contestant{Name: name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
		p := p
		p.Warm, p.Count, p.Counts = warm(n), n, p.Idle == 0
		r, err := (&job.Job{Kind: job.Ask, Echo: p}).Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: value(r), Each: duration(r.Nanos), Tails: r.Figures}, nil
	}}
}

func nanos(r *job.Result) float64 { return r.Nanos * usec }

// think is the time of an answer to a client that computes before each question, on a quiet machine and beside
// processes that compute.
func (s *Suite) think() (list []trial.Case) {
	const typical = 500 * time.Microsecond
	p50 := func(r *job.Result) float64 { return r.Figures[echo.P50] }
	for _, n := range []int{0, busy} {
		for _, t := range []time.Duration{20 * time.Microsecond, 100 * time.Microsecond, typical, 5 * time.Millisecond} {
			if s.Short && t != typical {
				continue
			}
			c := trial.Case{Name: "request/shm/think/" + text(t), Unit: "us", Pilot: leastTimed, Rounds: fewRounds}
			if n > 0 {
				c.Name += "/busy"
			}
			p := echo.Plan{System: echo.Endpoint, Progress: s.mode("auto"), Size: question, Think: t, Busy: n}
			add := func(list *[]trial.Contestant, name string, p echo.Plan) {
				x := s.echoed(name, p, p50)
				*list = append(*list, trial.Contestant{Name: name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
					return x.Run(ctx, max(n, leastTimed))
				}})
			}
			add(&c.Ours, "", p)
			if t == typical && s.Progress == "" && !s.Short {
				for _, mode := range []string{"manual", "pinned"} {
					p.Progress = mode
					add(&c.Ours, "/"+mode, p)
				}
			}
			for _, p.System = range []string{echo.Unix, echo.TCP} {
				add(&c.Peers, p.System, p)
			}
			list = append(list, c)
		}
	}
	return list
}

// text is a time in a name: 20us, 5ms.
func text(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%dus", d.Microseconds())
	}
	return d.String()
}

// clients are those that ask side by side.
const clients = 8

// json is the time of a JSON document and its answer by connections between two processes, by several at once, and by
// several within one process.
func (s *Suite) json() (list []trial.Case) {
	for _, way := range []struct {
		name    string
		clients int
		local   bool
	}{{"", 1, false}, {fmt.Sprintf("/conns%d", clients), clients, false}, {"/local", clients, true}} {
		for _, size := range s.pick([]int{64, 4 << 10, 64 << 10, 1 << 20}, []int{64 << 10}) {
			c := trial.Case{Name: "json/" + bytes(size) + way.name, Unit: "us", Pilot: clients, Rounds: fewRounds}
			for i := range echo.Documents {
				p := echo.Plan{System: echo.Documents[i].Name, Size: size, Clients: way.clients, Local: way.local}
				if i == 0 {
					c.Ours = []trial.Contestant{s.echoed("", p, nanos)}
					continue
				}
				c.Peers = append(c.Peers, s.echoed(echo.Systems[i-1].Name, p, nanos))
			}
			list = append(list, c)
		}
	}
	return list
}

// slowReceiver is the time of a message of a stream whose receiver computes for each: what is above the computing is
// lost.
func (s *Suite) slowReceiver() []trial.Case {
	p := complete(flow.Plan{Size: question, Think: slow})
	c := trial.Case{Name: "stream/slow-receiver", Unit: "us", Pilot: p.Batch}
	c.Ours = []trial.Contestant{{Run: func(ctx context.Context, n int) (trial.Sample, error) {
		j := job.Job{Kind: job.Stream, Device: peers.SHM, Progress: s.mode("auto"), Plan: p}
		j.Plan.Messages(n)
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		if r.Flow == nil {
			return trial.Sample{}, errors.New("a stream without a result")
		}
		x, each := trial.Sample{Tails: map[string]float64{}}, float64(r.Flow.Count)
		x.Value = float64(r.Flow.Nanos[0]) / each * usec
		x.Each = duration(x.Value / usec)
		x.Tails[echo.ClientCPU], x.Tails[echo.ServerCPU] = float64(r.Flow.Sender.CPU)/each*usec, float64(r.Flow.Receiver.CPU)/each*usec
		x.Tails[echo.Switches] = float64(r.Flow.Sender.Switches+r.Flow.Receiver.Switches) / each
		if calls := r.Flow.Sender.Calls + r.Flow.Receiver.Calls; calls > 0 {
			x.Tails[echo.Calls] = float64(calls) / each
		}
		return x, r.Flow.Check(&j.Plan)
	}}}
	for _, system := range []string{echo.Unix, echo.TCP} {
		c.Peers = append(c.Peers, s.echoed(system, echo.Plan{System: system, Size: question, Stream: true, Think: slow}, nanos))
	}
	return []trial.Case{c}
}

// plainStream is a stream over a socket of package net's, in GB/s.
func (s *Suite) plainStream(system string, size int) trial.Contestant {
	p := echo.Plan{System: system, Size: size, Stream: true}
	return s.echoed(system, p, func(r *job.Result) float64 { return float64(size) / r.Nanos })
}
