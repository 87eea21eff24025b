package launch

import (
	"context"
	"net/netip"
	"strings"

	"github.com/efactor/efactor/internal/errtext"
)

// place is a launcher's description of this process.
type place struct {
	launcher             string // for people
	rank, size           int
	localRank, localSize int // localSize 0: not said
	job                  string
	join                 func(context.Context, *environment, *place) (carrier, error)
	// stays: the launcher expects the process to sign off at its end.
	stays bool
}

// carrier carries a Job's board.
type carrier interface {
	Put(ctx context.Context, key string, value []byte) error
	Fence(ctx context.Context) error
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)
	Abort(text string)
	Close() error
	// Local is this host's address as the launcher's connections show it, if they do.
	Local() netip.Addr
}

// launchers are all there are, in the order of the package comment. Each returns nil if
// it has left no traces. A process that torchrun started under mpiexec or srun sees the
// traces of both and belongs to torchrun; mpirun under srun likewise leaves those of
// Slurm.
var launchers = []struct {
	name string
	find func(*environment) (*place, error)
}{
	{"explicit", (*environment).findExplicit},
	{"env", (*environment).findOwn},
	{"torchrun", (*environment).findTorchrun},
	{"pmi", (*environment).findPMI},
	{"openmpi", (*environment).findOpenMPI},
	{"slurm", (*environment).findSlurm},
	{"torchrun", (*environment).findLikeTorchrun},
	{"kubernetes", (*environment).findKubernetes},
	{aloneName, (*environment).findNothing},
}

// find asks the launchers in turn.
func (e *environment) find() (*place, error) {
	var names []string
	for _, l := range launchers {
		names = append(names, l.name)
		if e.Launcher != "" && e.Launcher != l.name {
			continue
		}
		p, err := l.find(e)
		if err != nil {
			return nil, err
		}
		if p != nil {
			return p, e.agree(p, l.name)
		}
	}
	if e.Launcher != "" {
		return nil, bad("launcher %q: there is no trace of it, or no such launcher; those known: %s", e.Launcher, strings.Join(names, ", "))
	}
	return nil, nil // not reached: findNothing finds
}

// agree fills in and checks what the environment may say besides.
func (e *environment) agree(p *place, name string) error {
	if name == aloneName && e.Launcher == name { // inherited variables are ignored
		return nil
	}
	if e.LocalSize > 0 {
		if e.LocalRank < 0 || e.LocalRank >= e.LocalSize {
			return bad("local rank %d of %d", e.LocalRank, e.LocalSize)
		}
		if p.size > 0 && e.LocalSize > p.size {
			return bad("%d ranks on this host, but %s says that there are %d in all", e.LocalSize, p.launcher, p.size)
		}
		p.localRank, p.localSize = e.LocalRank, e.LocalSize
	}
	if e.Job == "" {
		e.Job = p.job
	}
	if name == "explicit" || p.size == 0 { // with PMI_PORT it is known later
		return nil
	}
	n, ok, err := e.number(envSize, 1, MaxSize)
	switch {
	case err != nil || !ok || n == p.size:
	case name == aloneName:
		err = bad("%s=%d, but there is neither %s nor a trace of a launcher", envSize, n, envRank)
	default:
		err = bad("%s says that there are %d ranks, but %s=%d", p.launcher, p.size, envSize, n)
	}
	return err
}

const aloneName = "alone"

const aloneText = "none: this process is alone"

func (*environment) findNothing() (*place, error) {
	return &place{launcher: aloneText, size: 1, join: joinAlone}, nil
}

// Found returns the launcher that Init would take by default, and reports whether
// there is one: false means that this process would be alone. The error is Init's.
func Found() (launcher string, ok bool, err error) {
	defer errtext.Wrap("launch", "find", &err)
	e, err := Config{}.resolve()
	if err != nil {
		return "", false, err
	}
	p, err := e.find()
	if err != nil {
		return "", false, err
	}
	return p.launcher, p.launcher != aloneText, nil
}
