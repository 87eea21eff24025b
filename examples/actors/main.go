// Actors is a pool of worker actors on several processes, of which one is killed in the middle.
//
//	go run ./examples/actors
//
// The first process starts two others, which register the kind "worker". A supervisor actor spawns
// two workers on each and hands tasks out: to count the primes among 10,000 numbers. When a third of
// the work is done, the program kills one process. The supervisor watches its workers, gets
// Terminated for two of them, spawns these again on the process that is left, and gives them
// the tasks that were not done.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/efactor/efactor/api/remote"
)

func main() {
	host := flag.Bool("host", false, "be one of the processes with workers, until the input ends")
	tasks := flag.Int("tasks", 600, "how many tasks there are")
	flag.Parse()
	run := func() error { return supervise(*tasks) }
	if *host {
		run = work
	}
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// config is what all processes agree on.
func config() *remote.Config {
	return &remote.Config{Codecs: []remote.Codec{remote.JSON(&task{}, &result{})}}
}

// work is a process with workers. It says where it listens.
func work() error {
	ctx := context.Background()
	system := actor.NewActorSystem()
	r, err := config().Listen(ctx, system, "127.0.0.1:0")
	if err != nil {
		return err
	}
	r.Register("worker", actor.PropsFromFunc(worker))
	fmt.Println(r.Address())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return r.Close(ctx)
}

// supervise starts the others and the supervisor, and kills one.
func supervise(tasks int) error {
	ctx := context.Background()
	system := actor.NewActorSystem()
	r, err := config().Listen(ctx, system, "127.0.0.1:0")
	if err != nil {
		return err
	}
	hosts := []*process{}
	for range 2 {
		h, err := start()
		if err != nil {
			return err
		}
		defer h.end()
		hosts = append(hosts, h)
	}
	pool := &supervisor{
		remote: r, hosts: []string{hosts[0].address, hosts[1].address}, tasks: tasks,
		third: func() { fmt.Printf("killing %s\n", hosts[1].address); _ = hosts[1].cmd.Process.Kill() },
		done:  make(chan error, 1),
	}
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor { return pool }))
	if err := <-pool.done; err != nil {
		return err
	}
	if err := system.Root.StopFuture(pid).Wait(); err != nil {
		return err
	}
	fmt.Printf("%d primes below %d, by %d tasks; %d workers were spawned again\n", pool.primes, tasks*perTask, tasks, pool.again)
	return r.Close(ctx)
}

// process is another process.
type process struct {
	cmd     *exec.Cmd
	in      io.Closer
	address string
}

func start() (*process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe, "-host")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line := bufio.NewScanner(out)
	if !line.Scan() {
		return nil, fmt.Errorf("a process did not start: %w", cmd.Wait())
	}
	return &process{cmd, in, line.Text()}, nil
}

func (p *process) end() {
	_ = p.in.Close()
	_ = p.cmd.Wait() // it may have been killed
}
