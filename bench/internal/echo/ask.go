package echo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/runtime/clock"
)

// patience is how long a single answer may take.
const patience = 10 * time.Second

// Plan is what to do.
type Plan struct {
	System string `json:"system"`
	Size   int    `json:"size"` // of question and answer
	Warm   int    `json:"warm"`
	Count  int    `json:"count"` // of questions
	// Stream: they are messages that nobody answers, one after the other.
	Stream bool `json:"stream"`
	// Idle is how long both processes then do nothing.
	Idle time.Duration `json:"idle"`
}

// Result is what it came to.
type Result struct {
	Each time.Duration `json:"each"` // of question and answer
	CPU  time.Duration `json:"cpu"`  // of both processes, for one of them
	// IdleCPU is that of the server while nothing was to do.
	IdleCPU time.Duration `json:"idle_cpu"`
}

// Serve answers until in ends: the server's process. It writes where it listens to out.
func Serve(ctx context.Context, name string, in io.Reader, out io.Writer) error {
	s, err := find(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, in) // ends when the client has closed it, or is dead
		cancel()
	}()
	err = s.serve(ctx, func(addr string) { fmt.Fprintln(out, addr) })
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Ask starts the server by a command, and does what the plan says.
func Ask(ctx context.Context, p Plan, command []string) (res Result, err error) {
	s, err := find(p.System)
	if err != nil {
		return res, err
	}
	var log bytes.Buffer
	server := exec.CommandContext(ctx, command[0], command[1:]...)
	server.Stderr = &log
	server.WaitDelay = patience
	end, err := server.StdinPipe()
	if err != nil {
		return res, err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return res, err
	}
	if err := server.Start(); err != nil {
		return res, err
	}
	defer func() {
		if e := errors.Join(end.Close(), server.Wait()); e != nil && err == nil {
			err = fmt.Errorf("server: %w: %s", e, log.Bytes())
		}
	}()
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return res, fmt.Errorf("server: %w: %s", err, log.Bytes())
	}
	c, err := s.dial(ctx, strings.TrimSpace(addr))
	if err != nil {
		return res, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return p.measure(ctx, c, server.Process.Pid)
}

func (p *Plan) measure(ctx context.Context, c caller, server int) (res Result, err error) {
	question := make([]byte, p.Size)
	ask := func(n int) error {
		if p.Stream {
			x, ok := c.(streamer)
			if !ok {
				return fmt.Errorf("%w of messages one way: %s", errUnknown, p.System)
			}
			return x.stream(ctx, n, question)
		}
		for i := range n {
			if p.Size >= 8 {
				binary.LittleEndian.PutUint64(question, uint64(i)) //nolint:gosec // a count
			}
			answer, err := c.call(ctx, question)
			if err != nil {
				return err
			}
			if !bytes.Equal(answer, question) {
				return errAnswer
			}
		}
		return nil
	}
	if err := ask(p.Warm); err != nil {
		return res, err
	}
	used := versus.OwnCPU() + versus.CPUTime(server)
	began := clock.System.Now()
	if err := ask(p.Count); err != nil {
		return res, err
	}
	n := time.Duration(max(p.Count, 1))
	res.Each = clock.System.Now().Sub(began) / n
	res.CPU = (versus.OwnCPU() + versus.CPUTime(server) - used) / n
	if p.Idle > 0 {
		used := versus.CPUTime(server)
		<-clock.NewTimer(p.Idle).C
		res.IdleCPU = versus.CPUTime(server) - used
	}
	return res, nil
}
