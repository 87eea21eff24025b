package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/launch"
	"github.com/efactor/efactor/api/launch/local"
	"github.com/efactor/efactor/bench/internal/echo"
	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/flow"
)

// The kinds of jobs.
const (
	PingPong    = "pingpong"    // messages there and back
	Stream      = "stream"      // a plan of package flow
	Fan         = "fan"         // the same from several senders to one: a plan of package flow
	Each        = "each"        // messages that are matched each with one of many
	Allreduce   = "allreduce"   // of float32
	IdleMany    = "idlemany"    // nothing, with many processes
	Copies      = "copies"      // of memory, in this process
	Eager       = "eager"       // messages on one shard
	Allocations = "allocations" // of each subprotocol, in one process
	Peers       = "peers"       // heap for idle peers; one process
	Ask         = "ask"         // a plan of package echo
	Serve       = "serve"       // its server
	Busy        = "busy"        // nothing but to compute
)

// Job is what to do.
type Job struct {
	Kind     string    `json:"kind"`
	Device   string    `json:"device,omitempty"`
	Progress string    `json:"progress,omitempty"`
	Ranks    int       `json:"ranks,omitempty"` // of Allreduce, Fan and IdleMany; 0: 2
	Size     int       `json:"size,omitempty"`  // of a message
	Warm     int       `json:"warm,omitempty"`  // messages each way before the clock starts
	Count    int       `json:"count,omitempty"`
	Alloc    bool      `json:"alloc,omitempty"`  // buffers are the domain's, not Go's
	Timed    int       `json:"timed,omitempty"`  // messages that are then timed one by one
	Idle     int       `json:"idle,omitempty"`   // milliseconds in which then nothing is done
	Depth    int       `json:"depth,omitempty"`  // of what waits in the matcher, peers, or buffers
	Came     bool      `json:"came,omitempty"`   // what waits are messages, not receives
	Random   bool      `json:"random,omitempty"` // their tags come in no order
	Plan     flow.Plan `json:"plan,omitzero"`
	Echo     echo.Plan `json:"echo,omitzero"`
}

// Result is what it came to; fields that mean nothing for the job are 0.
type Result struct {
	Nanos   float64            `json:"ns"`                // of a round trip, a call, or a question
	CPU     float64            `json:"cpu"`               // ns of all processes, for one of them
	IdleCPU float64            `json:"idle_cpu"`          // ns of the first process, or of the server
	Tails   map[string]float64 `json:"tails"`             // percentiles of round trips, ns
	Heap    float64            `json:"heap"`              // bytes for a peer
	Allocs  map[string]float64 `json:"allocs,omitempty"`  // for an operation, by its subprotocol
	Flow    *flow.Result       `json:"flow,omitempty"`    // of a stream
	Figures map[string]float64 `json:"figures,omitempty"` // of Ask, as package echo names them
}

var errKind = errors.New("no such job")

// ranks is how many processes a kind takes.
func (j *Job) ranks() int {
	switch j.Kind {
	case PingPong, Stream, Each:
		return 2
	case Allreduce, Fan, IdleMany:
		return max(j.Ranks, 2)
	}
	return 1
}

// Main does a job that was given as text, and does not return.
func Main(text string) {
	j := new(Job)
	err := json.Unmarshal([]byte(text), j)
	if err == nil {
		local.Main(j.ranks(), func(ctx context.Context) error { return j.do(ctx, os.Stdin, os.Stdout) })
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(2)
}

// do writes the result, if this is the process that has it.
func (j *Job) do(ctx context.Context, in io.Reader, out io.Writer) error {
	var res *Result
	var err error
	switch j.Kind {
	case PingPong, Allreduce:
		res, err = j.together(ctx)
	case Stream:
		res, err = j.stream(ctx)
	case Fan:
		res, err = j.fan(ctx)
	case Each:
		res, err = j.each(ctx)
	case IdleMany:
		res, err = j.idleMany(ctx)
	case Copies:
		res, err = j.copies(ctx)
	case Eager:
		res, err = j.eager(ctx)
	case Allocations:
		res, err = j.allocations(ctx)
	case Peers:
		res, err = j.peers(ctx)
	case Ask:
		res, err = j.ask(ctx)
	case Serve:
		return j.Echo.Serve(ctx, in, out)
	case Busy:
		echo.Busy(ctx, in)
	default:
		err = fmt.Errorf("%q: %w", j.Kind, errKind)
	}
	if err != nil || res == nil {
		return err
	}
	return json.NewEncoder(out).Encode(res)
}

// Run has a program that calls Main with what follows -job do a job. Before the program may
// be a command that starts it.
func (j *Job) Run(ctx context.Context, program ...string) (*Result, error) {
	command, err := j.Command(program...)
	if err != nil {
		return nil, err
	}
	out, err := versus.Output(exec.CommandContext(ctx, command[0], command[1:]...))
	if err != nil {
		return nil, err
	}
	res := new(Result)
	if err := json.Unmarshal(out, res); err != nil {
		return nil, fmt.Errorf("unexpected output %q: %w", out, err)
	}
	return res, nil
}

// Command is the program with its argument.
func (j *Job) Command(program ...string) ([]string, error) {
	text, err := json.Marshal(j)
	return append(slices.Clone(program), "-job", string(text)), err
}

var quiet = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))

// open forms the group of the processes.
func (j *Job) open(ctx context.Context) (*launch.Group, error) {
	mode, err := efa.ParseProgress(j.Progress)
	if err != nil {
		return nil, err
	}
	cfg := launch.Config{
		Logger: quiet,
		Fabric: efa.Config{DeviceName: j.Device, Logger: quiet},
		Domain: efa.DomainConfig{Progress: mode},
	}
	if j.Depth > 0 {
		cfg.Endpoint.RxDepth = j.Depth + spare
	}
	return cfg.Init(ctx)
}

// spare is the depth of the receive queue beside what waits.
const spare = 64

// stream is a side of a stream.
func (j *Job) stream(ctx context.Context) (*Result, error) {
	mode, err := efa.ParseProgress(j.Progress)
	if err != nil {
		return nil, err
	}
	s, err := flow.Open(ctx, j.Device, mode)
	if err != nil {
		return nil, err
	}
	res, err := s.Run(ctx, j.Plan)
	if err = errors.Join(err, s.Close()); err != nil || s.Rank != 0 {
		return nil, err
	}
	return &Result{Flow: res}, res.Check(&j.Plan)
}

// ask is the client of package echo, with its server in another process.
func (j *Job) ask(ctx context.Context) (*Result, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	server, err := (&Job{Kind: Serve, Echo: j.Echo}).Command(self)
	if err != nil {
		return nil, err
	}
	busy, err := (&Job{Kind: Busy}).Command(self)
	if err != nil {
		return nil, err
	}
	r, err := j.Echo.Ask(ctx, server, busy)
	return &Result{Nanos: float64(r.Each), CPU: float64(r.CPU), IdleCPU: float64(r.IdleCPU), Figures: r.Figures}, err
}
