// Workqueue shares tasks out among ranks that take them by themselves: no rank hands
// them out, and the one in whose memory the queue lies need not run any code for it.
//
//	go run ./examples/workqueue     4 processes of its own
//	mpiexec -n 4 ./workqueue        or srun, torchrun, ...
//
// A task is to count the primes among 1,000 numbers. The queue is an array of words in
// the memory of rank 0, and atomics do everything: a rank takes the next task by adding 1
// to the first word, enters its result by a compare-and-swap in the task's own word, which
// shows a task that was done twice, and when none is left adds 1 to the second word.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
)

func main() {
	ranks := flag.Int("ranks", 4, "processes to start if nobody else has started some")
	tasks := flag.Uint64("tasks", 1000, "how many tasks there are")
	flag.Parse()
	local.Run(*ranks, func(ctx context.Context, g *launch.Group) error { return work(ctx, g, *tasks) })
}

const perTask = 1000 // numbers

const (
	wordNext = iota // the next task to take
	wordLeft        // how many ranks have found none left
	wordTask        // the first task's; its worker, and its result
)

// queue is a rank's view of it.
type queue struct {
	*launch.Group
	tasks uint64
	mem   efa.Remote // of rank 0
}

func (q *queue) word(i uint64) efa.Cell[uint64] {
	return efa.NewCell[uint64](q.Endpoint.Memory(q.Peers[0], q.mem.Slice(8*i, 8)))
}

func work(ctx context.Context, g *launch.Group, tasks uint64) error {
	q := &queue{Group: g, tasks: tasks}
	if g.Rank == 0 {
		mem, err := g.Domain.Alloc(8*int(wordTask+tasks), efa.AccessRemoteRead|efa.AccessRemoteWrite)
		if err != nil {
			return err
		}
		defer mem.Close()
		q.mem = mem.Remote()
	}
	if err := q.find(ctx); err != nil {
		return err
	}
	if err := q.takeAll(ctx); err != nil || g.Rank != 0 {
		return err
	}
	return q.report(ctx)
}

// find distributes rank 0's address of the queue to the others.
func (q *queue) find(ctx context.Context) error {
	if q.Rank != 0 {
		handle := make([]byte, efa.MaxRemote)
		m, err := q.Endpoint.Recv(ctx, handle)
		if err != nil {
			return err
		}
		return q.mem.UnmarshalBinary(handle[:m.N])
	}
	handle, err := q.mem.MarshalBinary()
	for _, peer := range q.Peers[1:] {
		err = errors.Join(err, q.Endpoint.Send(ctx, peer, handle))
	}
	return err
}

// takeAll does tasks until there are none left.
func (q *queue) takeAll(ctx context.Context) error {
	for {
		task, err := q.word(wordNext).FetchAdd(ctx, 1)
		if err != nil {
			return err
		}
		if task >= q.tasks {
			// Atomics are carried out in the order of the calls: a rank that sees this
			// one sees all our results.
			return q.word(wordLeft).Add(ctx, 1)
		}
		result := uint64(q.Rank+1)<<32 | primes(task*perTask, (task+1)*perTask)
		was, err := q.word(wordTask+task).CompareSwap(ctx, 0, result)
		if err != nil {
			return err
		}
		if was != 0 {
			return fmt.Errorf("task %d was done by rank %d before", task, was>>32-1)
		}
	}
}

// report waits for the others and prints what came out.
func (q *queue) report(ctx context.Context) (err error) {
	load := func(word uint64) (v uint64) {
		if err == nil {
			v, err = q.word(word).Load(ctx)
		}
		return v
	}
	for err == nil && load(wordLeft) < uint64(q.Size) {
	}
	sum, by := uint64(0), make([]int, q.Size+1)
	for i := range q.tasks {
		v := load(wordTask + i)
		sum += v & 0xffffffff
		by[v>>32]++
	}
	fmt.Printf("%d tasks, %d not done, by rank: %v\n", q.tasks, by[0], by[1:])
	fmt.Printf("%d primes below %d\n", sum, q.tasks*perTask)
	return err
}

// primes counts those from lo to hi-1.
func primes(lo, hi uint64) (n uint64) {
	for p := max(lo, 2); p < hi; p++ {
		d := uint64(2)
		for d*d <= p && p%d != 0 {
			d++
		}
		if d*d > p {
			n++
		}
	}
	return n
}
