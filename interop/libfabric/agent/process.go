package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// ErrGone is the error of all calls after the process has ended.
var ErrGone = errors.New("agent: the process has ended")

// patience is how long an answer may take. The program gives a stuck call up before.
const patience = 60 * time.Second

// process is the running program: it takes commands, one at a time, and gives the
// lines that come by themselves to on.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	on     func(verb string, w words)
	said   log // both directions
	stderr log

	mu      sync.Mutex // of a command and its answer
	answers chan string
	ready   chan struct{}
	dead    chan struct{} // closed when all output was read
	err     error         // after dead
}

// launch starts the program. ctx does not end it, stop does.
func launch(command, env []string, on func(string, words)) (*process, error) {
	p := &process{on: on, answers: make(chan string, 1), ready: make(chan struct{}), dead: make(chan struct{})}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.stderr
	group(p.cmd)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	go p.read(stdout)
	return p, nil
}

// read takes the program's lines until it ends.
func (p *process) read(stdout io.Reader) {
	lines := bufio.NewReaderSize(stdout, 1<<16)
	var ready sync.Once
	for {
		text, err := lines.ReadString('\n')
		text = strings.TrimSuffix(text, "\n")
		if text != "" {
			fmt.Fprintf(&p.said, "< %s\n", text)
		}
		switch event, own := strings.CutPrefix(text, "* "); {
		case own:
			verb, w := split(event)
			p.on(verb, w)
			if verb == "ready" {
				ready.Do(func() { close(p.ready) })
			}
		case text != "":
			select {
			case p.answers <- text:
			default: // to nothing that was asked; said has it
			}
		}
		if err != nil {
			break
		}
	}
	p.err = p.cmd.Wait()
	close(p.dead)
}

// gone is ErrGone with the exit status, valid after dead.
func (p *process) gone() error {
	if p.err == nil {
		return ErrGone
	}
	return fmt.Errorf("%w: %w", ErrGone, p.err)
}

// call sends a command and returns its answer.
func (p *process) call(ctx context.Context, command string) (words, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-p.answers: // a late one
	default:
	}
	fmt.Fprintf(&p.said, "> %s\n", command)
	if _, err := io.WriteString(p.stdin, command+"\n"); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGone, err)
	}
	select {
	case answer := <-p.answers:
		return result(command, answer)
	case <-p.dead:
		select {
		case answer := <-p.answers: // the last one, to quit
			return result(command, answer)
		default:
			return nil, fmt.Errorf("%w, at: %s", p.gone(), command)
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("no answer to %q: %w", command, ctx.Err())
	}
}

// CallError is a command that failed: Errno is libfabric's number.
type CallError struct {
	Errno   int
	Text    string
	Command string
}

// Error returns libfabric's error and the command.
func (e *CallError) Error() string { return fmt.Sprintf("%s (%d), of: %s", e.Text, e.Errno, e.Command) }

func result(command, answer string) (words, error) {
	verb, w := split(answer)
	switch verb {
	case "ok":
		return w, nil
	case "fail":
		return nil, &CallError{Errno: w.int("err", 0), Text: w["text"], Command: command}
	}
	return nil, fmt.Errorf("agent: answer %q to %q", answer, command)
}

// stop ends the program: first with its own word for it, then by force.
func (p *process) stop(ctx context.Context) error {
	_, err := p.call(ctx, "quit")
	_ = p.stdin.Close()
	if err == nil {
		select {
		case <-p.dead:
			if p.err != nil {
				return fmt.Errorf("agent: %w", p.err)
			}
			return nil
		case <-ctx.Done():
			err = ctx.Err()
		}
	}
	p.kill()
	<-p.dead
	return err
}

// kill ends the program and the one it runs under, if it has not ended: its number may
// be another's then.
func (p *process) kill() {
	select {
	case <-p.dead:
	default:
		killGroup(p.cmd)
	}
}
