package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/bench/internal/versus"
)

const usage = `usage: coll [flags]

Measures collectives over 2 processes that it starts, or over those that mpiexec,
srun or another launcher has started.

  -op LIST        allreduce, allgather, alltoall, barrier, bcast, gather, reduce,
                  reducescatter, scan, scatter; or all                (allreduce)
  -b, -e SIZE     the first and the last size: bytes, k, m, g allowed     (8, 16m)
  -f FACTOR       from one size to the next                                    (4)
  -n ITERATIONS   that are timed                  (0: a third of a second of them)
  -w WARMUP       iterations before                        (-1: a tenth of those)
  -c=false        don't check the results
  -type TYPE      float32, float64, int32, int64 or uint8               (float32)
  -redop OP       sum, prod, min or max                                     (sum)
  -buffers LIST   alloc (memory of the domain), slice (Go's)              (alloc)
  -alg NAME       the algorithm, where there is a choice        (as package coll)
  -ranks N        processes to start                                          (2)
  -device NAME    what Config.DeviceName takes, auto too         (as api/launch)
  -progress MODE  auto, manual or pinned                                   (auto)
  -json           JSON instead of the table
  -png FILE       a plot, too
  -cpuprofile F   profiles of the measuring, to F.RANK
  -mpich          compare Allreduce with MPICH's (Debian: mpich)
  -rounds N       of the comparison                                           (5)
`

// options are the flags.
type options struct {
	ops          []operation
	first, last  versus.Size
	factor       int
	iters, warm  int
	check        bool
	elem         string
	redop        string
	buffers      []string
	alg          string
	ranks        int
	device       string
	progress     string
	mode         efa.Progress
	json         bool
	png, profile string
	mpich        bool
	rounds       int
}

// parse reads the command line. The error is flag.ErrHelp if help was asked for.
func parse(args []string) (*options, error) {
	o := &options{first: 8, last: 16 << 20}
	fs := flag.NewFlagSet("coll", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	ops := fs.String("op", "allreduce", "")
	fs.Var(&o.first, "b", "")
	fs.Var(&o.last, "e", "")
	fs.IntVar(&o.factor, "f", 4, "")
	fs.IntVar(&o.iters, "n", 0, "")
	fs.IntVar(&o.warm, "w", -1, "")
	fs.BoolVar(&o.check, "c", true, "")
	fs.StringVar(&o.elem, "type", "float32", "")
	fs.StringVar(&o.redop, "redop", "sum", "")
	buffers := fs.String("buffers", "alloc", "")
	fs.StringVar(&o.alg, "alg", "", "")
	fs.IntVar(&o.ranks, "ranks", 2, "")
	fs.StringVar(&o.device, "device", "", "")
	fs.StringVar(&o.progress, "progress", "auto", "")
	fs.BoolVar(&o.json, "json", false, "")
	fs.StringVar(&o.png, "png", "", "")
	fs.StringVar(&o.profile, "cpuprofile", "", "")
	fs.BoolVar(&o.mpich, "mpich", false, "")
	fs.IntVar(&o.rounds, "rounds", 5, "")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	o.buffers = strings.Split(*buffers, ",")
	return o, o.validate(*ops, fs.Args())
}

func (o *options) validate(ops string, rest []string) error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(rest) != 0 {
		wrong("unknown arguments %q", rest)
	}
	found, unknown := findOperations(strings.Split(ops, ","))
	if o.ops = found; len(unknown) != 0 {
		wrong("no operation %q", unknown)
	}
	if o.last < o.first {
		o.last = o.first // as nccl-tests does
	}
	for name, least := range map[string][2]int{
		"-f": {o.factor, 2}, "-n": {o.iters, 0}, "-w": {o.warm, -1}, "-ranks": {o.ranks, 1}, "-rounds": {o.rounds, 1},
	} {
		if least[0] < least[1] {
			wrong("%s %d: at least %d", name, least[0], least[1])
		}
	}
	if !slices.Contains(types, o.elem) {
		wrong("no type %q", o.elem)
	}
	if !slices.Contains(redops, o.redop) {
		wrong("no reduction %q", o.redop)
	}
	for _, b := range o.buffers {
		if b != "alloc" && b != "slice" {
			wrong("no buffers %q", b)
		}
	}
	mode, err := efa.ParseProgress(o.progress)
	o.mode = mode
	return errors.Join(append(errs, err)...)
}

var types = []string{"float32", "float64", "int32", "int64", "uint8"}

// lineTime is the approximate time of the calls of a line, unless their number is
// given.
const lineTime = 300 * time.Millisecond

// iterations returns how many calls to make and to time if one takes about the time.
func (o *options) iterations(one time.Duration) (warmup, iters int) {
	iters = o.iters
	if iters == 0 {
		iters = int(min(max(lineTime/max(one, 1), 10), 50_000))
	}
	warmup = o.warm
	if warmup < 0 {
		warmup = max(iters/10, 2)
	}
	return warmup, iters
}
