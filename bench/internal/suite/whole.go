package suite

import (
	"context"
	"strconv"

	"github.com/efactor/efactor/bench/internal/echo"
	"github.com/efactor/efactor/bench/internal/job"
	"github.com/efactor/efactor/bench/internal/peers"
	"github.com/efactor/efactor/bench/internal/trial"
	"github.com/efactor/efactor/runtime/clock"
)

// start is the time from the start of two processes to their end, with one message each
// way: mostly what it takes to open devices and to find each other.
func (s *Suite) start() []trial.Case {
	c := trial.Case{Name: "start/shm/8B", Unit: "ms"}
	j := job.Job{Kind: job.PingPong, Device: peers.SHM, Progress: s.mode("manual"), Size: question, Count: 1}
	c.Ours = []trial.Contestant{whole("", func(ctx context.Context) error {
		_, err := j.Run(ctx, s.Self)
		return err
	})}
	for i := range s.Peers {
		p := &s.Peers[i]
		if p.Allreduce == nil { // others are started by hand, a server and then a client
			continue
		}
		c.Peers = append(c.Peers, whole(p.Name, func(ctx context.Context) error {
			_, err := p.PingPong(ctx, question, 1)
			return err
		}))
	}
	list := []trial.Case{c}
	for _, ranks := range s.pick([]int{4, 8}, nil) {
		list = append(list, s.startMany(ranks))
	}
	return list
}

// startMany is the same of more processes, with one Allreduce.
func (s *Suite) startMany(ranks int) trial.Case {
	c := trial.Case{Name: "start/shm/ranks" + strconv.Itoa(ranks), Unit: "ms", Rounds: fewRounds}
	j := job.Job{Kind: job.Allreduce, Device: peers.SHM, Progress: s.mode("auto"), Ranks: ranks, Size: question, Count: 1}
	c.Ours = []trial.Contestant{whole("", func(ctx context.Context) error {
		_, err := j.Run(ctx, s.Self)
		return err
	})}
	for i := range s.Peers {
		p := &s.Peers[i]
		if p.Allreduce == nil {
			continue
		}
		c.Peers = append(c.Peers, whole(p.Name, func(ctx context.Context) error {
			_, err := p.Allreduce(ctx, ranks, question, 1)
			return err
		}))
	}
	return c
}

func whole(name string, run func(context.Context) error) trial.Contestant {
	return trial.Contestant{Name: name, Run: func(ctx context.Context, _ int) (trial.Sample, error) {
		began := clock.System.Now()
		err := run(ctx)
		took := clock.System.Now().Sub(began)
		return trial.Sample{Value: took.Seconds() * 1e3, Each: took}, err
	}}
}

// cpu is the CPU time of both processes: for a message between two that spin, and for a
// question and its answer between two that sleep.
func (s *Suite) cpu() []trial.Case {
	spin := trial.Case{Name: "cpu/shm/8B", Unit: "us", Pilot: pilotTrips}
	j := job.Job{Device: peers.SHM, Progress: s.mode("manual"), Size: question}
	spin.Ours = []trial.Contestant{s.pair(j, func(r *job.Result) float64 { return r.CPU * usec })}
	for i := range s.Peers {
		p := &s.Peers[i]
		if p.Way != peers.SHM || p.Allreduce == nil {
			continue
		}
		spin.Peers = append(spin.Peers, trial.Contestant{Name: p.Name, Run: func(ctx context.Context, n int) (trial.Sample, error) {
			t, err := p.PingPong(ctx, question, n)
			return trial.Sample{Value: t.CPU, Each: duration(2 * t.Half / usec)}, err
		}})
	}
	sleep := trial.Case{Name: "cpu/request/8B", Unit: "us", Pilot: pilotTrips}
	j.Progress = s.mode("auto")
	sleep.Ours = []trial.Contestant{s.pair(j, func(r *job.Result) float64 { return 2 * r.CPU * usec })}
	for _, e := range echo.Systems {
		sleep.Peers = append(sleep.Peers, s.ask(e.Name, question, 0, func(r *job.Result) float64 { return r.CPU * usec }))
	}
	return []trial.Case{spin, sleep}
}

// few is how many peers the figure is of with which those of more are compared.
const few = 100

// memory is the heap for a peer that was used once.
func (s *Suite) memory() (list []trial.Case) {
	peer := func(name string, n int) trial.Contestant {
		return trial.Contestant{Name: name, Run: func(ctx context.Context, _ int) (trial.Sample, error) {
			r, err := (&job.Job{Kind: job.Peers, Depth: n}).Run(ctx, s.Self)
			if err != nil {
				return trial.Sample{}, err
			}
			return trial.Sample{Value: r.Heap}, nil
		}}
	}
	for _, n := range s.pick([]int{1000, 10_000}, []int{10_000}) {
		list = append(list, trial.Case{
			Name: "memory/peers" + map[int]string{1000: "1000", 10_000: "10000"}[n], Unit: "B",
			Ours: []trial.Contestant{peer("", n)}, Peers: []trial.Contestant{peer(itself, few)},
		})
	}
	return list
}

// idleTime is for how long nothing is done, in milliseconds.
const idleTime = 500

// idle is the CPU time of a process that has a peer and waits, in each second. Programs
// of MPI spin, and need no measuring.
func (s *Suite) idle() []trial.Case {
	perSecond := func(r *job.Result) float64 { return max(r.IdleCPU/idleTime, 1) / 1e3 } // 1 us a second: below what can be told
	c := trial.Case{Name: "idle/shm", Unit: "ms/s"}
	j := job.Job{Device: peers.SHM, Progress: s.mode("auto"), Size: question, Idle: idleTime}
	c.Ours = []trial.Contestant{s.pair(j, perSecond)}
	for _, e := range echo.Systems {
		c.Peers = append(c.Peers, s.ask(e.Name, question, idleTime, perSecond))
	}
	list := []trial.Case{c}
	for _, n := range s.pick([]int{8, 16}, nil) {
		sockets := echo.Plan{System: echo.Unix, Size: question, Clients: n, Idle: milliseconds(idleTime)}
		list = append(list, trial.Case{
			Name: "idle/shm/peers" + strconv.Itoa(n), Unit: c.Unit, Rounds: fewRounds,
			Ours:  []trial.Contestant{s.idleMany("", n, perSecond)},
			Peers: []trial.Contestant{s.idleMany(itself, 1, perSecond), s.echoed(echo.Unix, sockets, perSecond)},
		})
	}
	return list
}

// idleMany is a process that has n peers.
func (s *Suite) idleMany(name string, n int, value func(*job.Result) float64) trial.Contestant {
	return trial.Contestant{Name: name, Run: func(ctx context.Context, _ int) (trial.Sample, error) {
		j := job.Job{Kind: job.IdleMany, Device: peers.SHM, Progress: s.mode("auto"), Ranks: 1 + n, Idle: idleTime}
		r, err := j.Run(ctx, s.Self)
		if err != nil {
			return trial.Sample{}, err
		}
		return trial.Sample{Value: value(r)}, nil
	}}
}
