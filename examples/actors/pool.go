package main

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/remote"
)

// supervisor is the actor that has the workers.
type supervisor struct {
	remote *remote.Remote
	hosts  []string // addresses of processes that are there
	tasks  int
	third  func() // is called when a third is done
	done   chan error

	next    int              // the next task to hand out
	back    []int            // tasks of workers that are gone
	doing   map[string][]int // by worker
	results map[int]bool
	primes  int
	again   int // workers spawned again
}

const (
	workersPerHost = 2
	ahead          = 2 // tasks that a worker has at a time
)

// Receive implements actor.Actor.
func (s *supervisor) Receive(c actor.Context) {
	switch m := c.Message().(type) {
	case *actor.Started:
		s.doing, s.results = map[string][]int{}, map[int]bool{}
		for i := range workersPerHost * len(s.hosts) {
			s.spawn(c, s.hosts[i%len(s.hosts)])
		}
	case *result:
		s.take(c, m)
	case *actor.Terminated:
		s.replace(c, m)
	}
}

// spawn spawns a worker and gives it its first tasks.
func (s *supervisor) spawn(c actor.Context, host string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pid, err := s.remote.Spawn(ctx, host, "worker")
	if err != nil {
		s.end(err)
		return
	}
	c.Watch(pid)
	for range ahead {
		s.give(c, pid)
	}
}

// give hands a task out, if there is one.
func (s *supervisor) give(c actor.Context, to *actor.PID) {
	n := s.next
	switch {
	case len(s.back) > 0:
		n, s.back = s.back[0], s.back[1:]
	case n == s.tasks:
		return
	default:
		s.next++
	}
	s.doing[to.String()] = append(s.doing[to.String()], n)
	c.Request(to, &task{n})
}

// take takes a result and gives its worker the next task.
func (s *supervisor) take(c actor.Context, r *result) {
	worker := c.Sender().String()
	for i, n := range s.doing[worker] {
		if n == r.Number {
			s.doing[worker] = append(s.doing[worker][:i], s.doing[worker][i+1:]...)
			break
		}
	}
	if !s.results[r.Number] { // a worker may have done it and be gone
		s.results[r.Number] = true
		s.primes += r.Primes
		if len(s.results) == s.tasks/3 {
			s.third()
		}
	}
	if len(s.results) == s.tasks {
		s.end(nil)
		return
	}
	s.give(c, c.Sender())
}

// replace spawns a worker that is gone on another host.
func (s *supervisor) replace(c actor.Context, m *actor.Terminated) {
	fmt.Printf("worker %s: %v\n", m.Who.Id, m.Why)
	worker := m.Who.String()
	s.back = append(s.back, s.doing[worker]...)
	delete(s.doing, worker)
	for i, h := range s.hosts {
		if h == m.Who.Address && m.Why == actor.TerminatedReason_AddressTerminated {
			s.hosts = append(s.hosts[:i], s.hosts[i+1:]...)
			break
		}
	}
	if len(s.hosts) == 0 {
		s.end(fmt.Errorf("no process is left"))
		return
	}
	s.again++
	s.spawn(c, s.hosts[0])
}

func (s *supervisor) end(err error) {
	select {
	case s.done <- err:
	default: // it has ended
	}
}
