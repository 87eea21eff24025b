package echo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/efactor/efactor/bench/internal/versus"
)

// patience is how long a single answer may take.
const patience = 10 * time.Second

// Plan is what to do.
type Plan struct {
	System   string `json:"system"`
	Progress string `json:"progress,omitempty"` // of efactor's own endpoints
	Size     int    `json:"size"`               // of question and answer
	Warm     int    `json:"warm"`
	Count    int    `json:"count"` // of questions
	// Stream: they are messages that nobody answers, one after the other.
	Stream bool `json:"stream,omitempty"`
	// Think is for how long a client computes before each question, which is then timed for itself; or the receiver of a
	// stream for each message.
	Think time.Duration `json:"think,omitempty"`
	// Clients ask side by side, each with a connection of its own; 0: one does.
	Clients int `json:"clients,omitempty"`
	// Local: the server is in the clients' process.
	Local bool `json:"local,omitempty"`
	// Busy is how many processes beside do nothing but compute.
	Busy int `json:"busy,omitempty"`
	// Counts: system calls and switches are counted, too, in questions of their own.
	Counts bool `json:"counts,omitempty"`
	// Idle is how long both processes then do nothing.
	Idle time.Duration `json:"idle"`
}

// Result is what it came to.
type Result struct {
	Each time.Duration `json:"each"` // of question and answer, and of the computing before it
	CPU  time.Duration `json:"cpu"`  // of both processes, for one of them, without the computing
	// IdleCPU is that of the server while nothing was to do.
	IdleCPU time.Duration `json:"idle_cpu"`
	// Figures are others, for a question or a message of a stream, by their names; times are microseconds.
	Figures map[string]float64 `json:"figures,omitempty"`
}

// The names of figures.
const (
	P50       = "p50" // of the time of an answer, if each is timed
	P99       = "p99"
	CPU       = "cpu"        // of both processes, as the result has it
	ClientCPU = "client_cpu" // without the computing
	ServerCPU = "server_cpu" // with that for messages of a stream
	Switches  = "switches"   // as versus.Counts has them, of both processes
	Calls     = "calls"      // the same; there is none where the kernel does not count them
)

// Serve answers until in ends: the server's process. It writes where it listens to out.
func (p *Plan) Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	s, err := find(p.System)
	if err != nil {
		return err
	}
	ctx, cancel := untilEnd(ctx, in)
	defer cancel()
	err = s.serve(ctx, *p, func(addr string) { fmt.Fprintln(out, addr) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Busy computes until in ends.
func Busy(ctx context.Context, in io.Reader) {
	ctx, cancel := untilEnd(ctx, in)
	defer cancel()
	for ctx.Err() == nil {
		versus.Compute(time.Millisecond)
	}
}

// untilEnd ends a context when in does: its writer has closed it, or is dead.
func untilEnd(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		cancel()
	}()
	return ctx, cancel
}

// Ask starts the server by a command, and does what the plan says. Processes that compute are started by another one.
func (p *Plan) Ask(ctx context.Context, server, busy []string) (res Result, err error) {
	s, err := find(p.System)
	if err != nil {
		return res, err
	}
	var beside []*helper
	defer func() {
		for _, h := range beside {
			err = errors.Join(err, h.stop())
		}
	}()
	start := func(command []string) (*helper, error) {
		h, err := startHelper(ctx, command)
		if h != nil {
			beside = append(beside, h)
		}
		return h, err
	}
	for range p.Busy {
		if _, err := start(busy); err != nil {
			return res, err
		}
	}
	addr, pid := "", 0
	if p.Local {
		var end func() error
		if end, addr, err = s.local(ctx, p); err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, end()) }()
	} else {
		h, err := start(server)
		if err != nil {
			return res, err
		}
		if addr, err = h.line(); err != nil {
			return res, err
		}
		pid = h.cmd.Process.Pid
	}
	asking := &asking{Plan: p, server: pid}
	for range max(p.Clients, 1) {
		c, err := s.dial(ctx, *p, addr)
		if err != nil {
			return res, errors.Join(err, asking.close())
		}
		asking.clients = append(asking.clients, &client{caller: c})
	}
	defer func() { err = errors.Join(err, asking.close()) }()
	return asking.measure(ctx)
}

// local serves in this process. Its end waits for the server's.
func (s *System) local(ctx context.Context, p *Plan) (end func() error, addr string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	at, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		err := s.serve(ctx, *p, func(addr string) { at <- addr })
		if ctx.Err() != nil {
			err = nil
		}
		ended <- err
	}()
	end = func() error {
		cancel()
		return <-ended
	}
	select {
	case addr = <-at:
		return end, addr, nil
	case err = <-ended:
		cancel()
		return nil, "", errors.Join(err, errUnknown)
	}
}

// helper is a process that ends when its input does.
type helper struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
	log bytes.Buffer
}

func startHelper(ctx context.Context, command []string) (*helper, error) {
	h := &helper{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	h.cmd.Stderr, h.cmd.WaitDelay = &h.log, patience
	in, err := h.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	h.in, h.out = in, bufio.NewReader(out)
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	return h, nil
}

// line is the first that it writes.
func (h *helper) line() (string, error) {
	text, err := h.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("server: %w: %s", err, h.log.Bytes())
	}
	return strings.TrimSpace(text), nil
}

func (h *helper) stop() error {
	if err := errors.Join(h.in.Close(), h.cmd.Wait()); err != nil {
		return fmt.Errorf("server: %w: %s", err, h.log.Bytes())
	}
	return nil
}
