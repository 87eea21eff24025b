package contest

import (
	"context"
	_ "embed" // the C programs
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/bench/internal/mpi"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/flow"
)

var (
	//go:embed testdata/stream.h
	header []byte
	//go:embed testdata/fork.h
	forks []byte
	//go:embed testdata/provider.h
	provider []byte
	//go:embed testdata/fabric.c
	fabricC []byte
	//go:embed testdata/worker.h
	worker []byte
	//go:embed testdata/ucx.c
	ucxC []byte
	//go:embed testdata/mpi.c
	mpiC []byte
)

// The peers that there are.
const (
	Libfabric = "libfabric"
	MPICH     = "mpich"
	OpenMPI   = "openmpi"
)

// Others are not in the program stream's choice.
const (
	LibfabricTCP = "libfabric-tcp" // its provider tcp;ofi_rxm, over loopback
	UCX          = "ucx"           // the options are variables of its environment
)

// Peers lists those that use shared memory.
var Peers = []string{Libfabric, MPICH, OpenMPI}

// System is something to measure.
type System struct {
	Name string
	Run  func(context.Context, flow.Plan) (*flow.Result, error)
}

// systems are efactor's, then those of the peers that are installed.
func (c *Config) systems(ctx context.Context, dir string) ([]System, error) {
	var list []System
	for _, mem := range c.Mem {
		list = append(list, System{"efactor " + mem, c.ours(mem)})
	}
	if c.Device != "shm" && len(c.Peers) > 0 {
		fmt.Fprintf(c.Log, "the peers use shared memory: they are beside device shm only, not %s\n", c.Device)
		return list, nil
	}
	for _, peer := range Peers {
		if !slices.Contains(c.Peers, peer) {
			continue
		}
		s, err := Compile(ctx, dir, peer)
		switch {
		case errors.Is(err, versus.ErrAbsent):
			fmt.Fprintf(c.Log, "without %s: %v\n", peer, err)
		case err != nil:
			return nil, err
		default:
			list = append(list, s)
		}
	}
	return list, nil
}

// Compile makes the program of a peer, in dir. The error is versus.ErrAbsent if the peer is
// not installed. The options are those of the launcher, for MPI.
func Compile(ctx context.Context, dir, peer string, options ...string) (s System, err error) {
	var command []string
	switch peer {
	case Libfabric:
		s.Name = "libfabric shm"
		command, err = compileLibfabric(ctx, dir, "fabric", source(forks, provider, fabricC))
	case LibfabricTCP:
		s.Name = "libfabric tcp;ofi_rxm"
		command, err = compileLibfabric(ctx, dir, "fabric-tcp", source(forks, provider, fabricC), `-DPROVIDER="tcp;ofi_rxm"`, `-DSOURCE="127.0.0.1"`)
	case UCX:
		s.Name = "UCX"
		command, err = compileUCX(ctx, dir, "ucx", source(forks, worker, ucxC), options)
	case OpenMPI:
		s.Name = mpi.OpenMPI.Name
		command, err = compileMPI(ctx, dir, peer, &mpi.OpenMPI, options)
	default:
		s.Name = mpi.MPICH.Name
		command, err = compileMPI(ctx, dir, peer, &mpi.MPICH, options)
	}
	s.Run = func(ctx context.Context, p flow.Plan) (*flow.Result, error) {
		return Parse(ctx, &p, append(slices.Clone(command), arguments(&p)...))
	}
	return s, err
}

func compileMPI(ctx context.Context, dir, name string, m *mpi.MPI, options []string) ([]string, error) {
	program, err := m.Compile(ctx, dir, name, source(mpiC))
	return m.Command(2, program, options...), err
}

func compileLibfabric(ctx context.Context, dir, name string, code []byte, flags ...string) ([]string, error) {
	program, err := versus.Compile(ctx, dir, name, code, "gcc libfabric-dev", []string{"gcc"}, append(flags, "-lfabric")...)
	return []string{program}, absent(ctx, err, "libfabric-dev", "rdma/fabric.h")
}

func compileUCX(ctx context.Context, dir, name string, code []byte, environment []string) ([]string, error) {
	program, err := versus.Compile(ctx, dir, name, code, "gcc libucx-dev", []string{"gcc"}, "-lucp", "-lucs")
	return append(append([]string{"env"}, environment...), program), absent(ctx, err, "libucx-dev", "ucp/api/ucp.h")
}

// absent makes an error of the compiler versus.ErrAbsent if it does not find a header.
func absent(ctx context.Context, err error, packages, header string) error {
	if err == nil || errors.Is(err, versus.ErrAbsent) ||
		exec.CommandContext(ctx, "gcc", "-E", "-include", header, "-x", "c", "/dev/null").Run() == nil {
		return err
	}
	return fmt.Errorf("%w (Debian: %s): no %s", versus.ErrAbsent, packages, header)
}

// source puts what programs share before one, so that it is one file.
func source(parts ...[]byte) []byte {
	all := "#line 1 \"stream.h\"\n" + string(header)
	for _, p := range parts {
		all += "#line 1\n" + string(p)
	}
	return []byte(all)
}

// arguments are a plan's for the C programs.
func arguments(p *flow.Plan) []string {
	list := []string{}
	for _, n := range []int{p.Size, p.Warm, p.Count, p.Window, p.Batch, p.Buffers, one(p.Tagged), one(p.Both)} {
		list = append(list, strconv.Itoa(n))
	}
	return list
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

// ours runs this program as two processes, or both sides in this one if the device is
// within a process.
func (c *Config) ours(mem string) func(context.Context, flow.Plan) (*flow.Result, error) {
	return func(ctx context.Context, p flow.Plan) (*flow.Result, error) {
		p.Alloc = mem == "alloc"
		if c.Device == "sim" {
			return c.simulated(ctx, p)
		}
		plan, err := json.Marshal(&p)
		if err != nil {
			return nil, err
		}
		return Parse(ctx, &p, []string{c.Self, "-device", c.Device, "-progress", c.Progress, "-cpuprofile", c.CPUProfile, "-plan", string(plan)})
	}
}

// simulated has two goroutines do a plan.
func (c *Config) simulated(ctx context.Context, p flow.Plan) (*flow.Result, error) {
	mode, err := efa.ParseProgress(c.Progress)
	if err != nil {
		return nil, err
	}
	if c.CPUProfile != "" {
		stop, err := versus.Profile(c.CPUProfile)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	sides, err := flow.OpenSim(ctx, mode)
	if err != nil {
		return nil, err
	}
	other := make(chan error, 1)
	go func() {
		_, err := sides[1].Run(ctx, p)
		other <- err
	}()
	res, err := sides[0].Run(ctx, p)
	err = errors.Join(err, <-other, sides[0].Close(), sides[1].Close())
	if err == nil {
		err = res.Check(&p)
	}
	return res, err
}

// Parse runs a command that writes a result.
func Parse(ctx context.Context, p *flow.Plan, command []string) (*flow.Result, error) {
	out, err := versus.Output(exec.CommandContext(ctx, command[0], command[1:]...))
	if err != nil {
		return nil, err
	}
	r := new(flow.Result)
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("unexpected output %q: %w", out, err)
	}
	return r, r.Check(p)
}
