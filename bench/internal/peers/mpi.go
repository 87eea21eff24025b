package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/contest"
)

func mpich(ctx context.Context, dir string) ([]Peer, error) {
	p, err := overMPI(ctx, dir, "mpich", contest.MPICH, &mpi.MPICH)
	return []Peer{p}, err
}

// openMPI has a second way: its module for tcp alone.
func openMPI(ctx context.Context, dir string) ([]Peer, error) {
	p, err := overMPI(ctx, dir, "openmpi", contest.OpenMPI, &mpi.OpenMPI)
	if err != nil {
		return nil, err
	}
	tcp := Peer{Name: "openmpi-tcp", Way: TCP}
	loopback := []string{"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"}
	tcp.PingPong = mpiPingPong(mpi.OpenMPI.Command(2, dir+"/openmpi-pingpong", loopback...))
	s, err := contest.Compile(ctx, dir, contest.OpenMPI, loopback...)
	tcp.Stream, tcp.Both = s.Run, s.Run
	return []Peer{p, tcp}, err
}

// overMPI compiles the programs for an implementation.
func overMPI(ctx context.Context, dir, name, stream string, m *mpi.MPI) (Peer, error) {
	p := Peer{Name: name, Way: SHM}
	pingpong, err := m.Compile(ctx, dir, name+"-pingpong", mpi.PingPong)
	if err != nil {
		return p, err
	}
	allreduce, err := m.Compile(ctx, dir, name+"-allreduce", mpi.Allreduce)
	if err != nil {
		return p, err
	}
	each, err := m.Compile(ctx, dir, name+"-each", mpi.Each)
	if err != nil {
		return p, err
	}
	s, err := contest.Compile(ctx, dir, stream)
	if err != nil {
		return p, err
	}
	p.Each = mpiEach(m.Command(2, each))
	p.PingPong, p.Stream, p.Both, p.Allreduce = mpiPingPong(m.Command(2, pingpong)), s.Run, s.Run, mpiAllreduce(m, allreduce)
	p.Fan, err = contest.CompileFan(ctx, dir, stream)
	return p, err
}

func mpiPingPong(command []string) func(context.Context, int, int) (Trip, error) {
	return func(ctx context.Context, size, n int) (Trip, error) {
		var r struct {
			Half float64 `json:"us"`
			CPU  float64 `json:"cpu_us"`
		}
		err := runMPI(ctx, command, size, n, &r)
		return Trip{r.Half, r.CPU}, err
	}
}

func mpiAllreduce(m *mpi.MPI, program string) func(context.Context, int, int, int) (time.Duration, error) {
	return func(ctx context.Context, ranks, size, n int) (time.Duration, error) {
		var r struct {
			Avg   float64 `json:"avg_us"`
			Wrong int     `json:"wrong"`
		}
		if err := runMPI(ctx, m.Command(ranks, program), size, n, &r); err != nil {
			return 0, err
		}
		if r.Wrong != 0 {
			return 0, fmt.Errorf("%d wrong elements", r.Wrong)
		}
		return time.Duration(r.Avg * float64(time.Microsecond)), nil
	}
}

func mpiEach(command []string) func(context.Context, int, bool, bool, int) (time.Duration, error) {
	return func(ctx context.Context, depth int, came, random bool, n int) (time.Duration, error) {
		var r struct {
			Each float64 `json:"us"`
		}
		err := runProgram(ctx, command, &r, strconv.Itoa(depth), strconv.Itoa(max(n/depth, 1)), digit(came), digit(random))
		return time.Duration(r.Each * float64(time.Microsecond)), err
	}
}

func digit(is bool) string {
	if is {
		return "1"
	}
	return "0"
}

// runMPI runs one of the programs that have operations of a size.
func runMPI(ctx context.Context, command []string, size, n int, result any) error {
	return runProgram(ctx, command, result, strconv.Itoa(size), strconv.Itoa(warm(n)), strconv.Itoa(n))
}

// runProgram runs one of the programs, which print JSON.
func runProgram(ctx context.Context, command []string, result any, args ...string) error {
	args = slices.Concat(command[1:], args)
	out, err := versus.Output(exec.CommandContext(ctx, command[0], args...))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, result); err != nil {
		return fmt.Errorf("unexpected output %q: %w", out, err)
	}
	return nil
}
