package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// proc is a process that the conductor has started: this program, in a role.
type proc struct {
	role
	cmd    *exec.Cmd
	in     io.Closer
	orders *json.Encoder
	news   chan news // closed when it has ended
	stderr tail
	card   *card
	ended  chan struct{}
	killed bool // by us, so its end means nothing

	mu     sync.Mutex
	failed [mostPeers]bool // what it has said of others since forget
}

// begin starts a process. uid 0: as the same user.
func begin(r role, uid uint32) (*proc, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	p := &proc{role: r, cmd: exec.Command(os.Args[0]), news: make(chan news, 64), ended: make(chan struct{})}
	if uid != 0 { // it may not reach the path of this program
		p.cmd = exec.Command("/proc/self/exe")
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		p.cmd.Dir = "/"
	}
	if r.Apart {
		p.cmd = apart(p.cmd)
	}
	p.cmd.Env = append(os.Environ(), roleVar+"="+string(text))
	p.cmd.Stderr = &p.stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", r.Is, err)
	}
	p.in, p.orders = in, json.NewEncoder(in)
	go p.listen(out)
	return p, nil
}

func (p *proc) listen(out io.Reader) {
	for lines := json.NewDecoder(out); ; {
		var n news
		if lines.Decode(&n) != nil {
			break
		}
		if n.Failed != nil {
			p.note(*n.Failed)
			continue
		}
		p.news <- n
	}
	_ = p.cmd.Wait()
	close(p.news)
	close(p.ended)
}

// await waits for news that are what the caller wants.
func (p *proc) await(what string, most time.Duration, want func(*news) bool) (*news, error) {
	t := clock.NewTimer(most)
	defer t.Stop()
	for {
		select {
		case n, ok := <-p.news:
			switch {
			case !ok:
				return nil, fmt.Errorf("%s %d ended (%v), before %s: %s", p.Is, p.Index, p.cmd.ProcessState, what, p.stderr.String())
			case want(&n):
				return &n, nil
			case n.Report != nil && len(n.Report.Wrongs) > 0:
				return nil, fmt.Errorf("%s %d, before %s: %s", p.Is, p.Index, what, n.Report.Wrongs[0])
			}
		case <-t.C:
			return nil, p.hung(what, most)
		}
	}
}

// stacksVar names the file of goroutines of what does not answer.
const stacksVar = "EFACTOR_ATTACK_STACKS"

// hung is the error that there was no what in time. The process ends, and says where it is, if
// the environment names a file for that.
func (p *proc) hung(what string, most time.Duration) error {
	if file := os.Getenv(stacksVar); file != "" {
		_ = p.orders.Encode(order{Dump: true})
		_ = pause(context.Background(), time.Second)
		_ = p.cmd.Process.Signal(syscall.SIGQUIT)
		<-p.ended
		_ = os.WriteFile(file+"."+p.Is+fmt.Sprint(p.Index), []byte(p.stderr.b.String()), 0o600)
	}
	return fmt.Errorf("%s %d: no %s in %v: %s", p.Is, p.Index, what, most, p.stderr.String())
}

// note keeps that p has had an error with peer i.
func (p *proc) note(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed[i] = true
}

func (p *proc) forget(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed[i] = false
}

func (p *proc) hasFailed(i int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed[i]
}

// kill ends the process at once.
func (p *proc) kill() {
	p.killed = true
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	for range p.news { // so that listen comes to an end
	}
	<-p.ended
}

// dead reports whether the process has ended.
func (p *proc) dead() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// tail keeps the beginning of what a process wrote as it died, where a panic says what it is.
type tail struct {
	mu sync.Mutex
	b  strings.Builder
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if room := 64<<10 - t.b.Len(); room > 0 {
		t.b.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()[:min(t.b.Len(), 3000)]
}
