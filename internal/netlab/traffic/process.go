package traffic

import (
	"bufio"
	"encoding/json"
	"io"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

// hostTime is for a host that has nothing to wait for; the machine may be busy.
const hostTime = 90 * time.Second

// mark begins the lines that are answers: others are of the program around Serve.
const mark = '{'

// Process is a host, seen from the test.
type Process struct {
	t       testing.TB
	cmd     *exec.Cmd
	in      io.WriteCloser
	orders  *json.Encoder
	answers chan answer
	news    map[int]Down // the latest of each host
	Place   Place
}

// Start starts a command that calls Serve with its standard input and output.
func Start(t testing.TB, cmd *exec.Cmd) *Process {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	cmd.Stderr = &logger{t: t}
	require.NoError(t, cmd.Start())
	p := &Process{t: t, cmd: cmd, in: in, orders: json.NewEncoder(in), answers: make(chan answer, 1024), news: map[int]Down{}}
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(p.answers)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 16<<20)
		for lines.Scan() {
			var a answer
			if b := lines.Bytes(); len(b) > 0 && b[0] == mark && json.Unmarshal(b, &a) == nil {
				p.answers <- a
			}
		}
	}()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		<-read
		_ = cmd.Wait()
	})
	a := p.next(hostTime)
	require.NotNil(t, a.Place, "host is not ready")
	p.Place = *a.Place
	return p
}

// next waits for the next answer.
func (p *Process) next(d time.Duration) answer {
	p.t.Helper()
	timer := clock.NewTimer(d)
	defer timer.Stop()
	select {
	case a, ok := <-p.answers:
		require.True(p.t, ok, "the host has ended")
		require.Empty(p.t, a.Error, "of the host")
		if a.Down != nil {
			p.news[a.Down.Host] = *a.Down
		}
		return a
	case <-timer.C:
		require.FailNow(p.t, "no answer of a host", "within %v", d)
		return answer{}
	}
}

func (p *Process) order(o order) {
	p.t.Helper()
	require.NoError(p.t, p.orders.Encode(o))
}

// Begin introduces all hosts to each other.
func Begin(all []*Process) {
	var places []Place
	for _, p := range all {
		places = append(places, p.Place)
	}
	for _, p := range all {
		p.order(order{Peers: places})
	}
}

// Stop ends the load; see Stopped.
func (p *Process) Stop() {
	p.t.Helper()
	p.order(order{Stop: true})
}

// Stopped waits until all requests have their outcome and the last blocks were written.
func (p *Process) Stopped(d time.Duration) {
	p.t.Helper()
	for !p.next(d).Stopped {
	}
}

// Down waits until the latest news of one host are that it is up again, or that it went
// down and all that was outstanding then has ended.
func (p *Process) Down(host int, up bool, d time.Duration) Down {
	p.t.Helper()
	for {
		if n, ok := p.news[host]; ok && n.Up == up {
			return n
		}
		p.next(d)
	}
}

// StillDown fails if the host is up again within a time.
func (p *Process) StillDown(host int, d time.Duration) {
	p.t.Helper()
	timer := clock.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case a, ok := <-p.answers:
			require.True(p.t, ok, "the host has ended")
			require.Empty(p.t, a.Error, "of the host")
			require.False(p.t, a.Down != nil && a.Down.Host == host && a.Down.Up, "up again")
		case <-timer.C:
			return
		}
	}
}

// Flowing waits until packets to another host have completed.
func (p *Process) Flowing(host int, d time.Duration) {
	p.t.Helper()
	for end := clock.System.Now().Add(d); p.Report().Peers[host].Sent.Len() < 2*window; {
		require.Less(p.t, clock.System.Now(), end, "no packets to host %d", host)
	}
}

// Kill ends the process at an arbitrary instruction.
func (p *Process) Kill() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
}

// Report asks what a host has seen.
func (p *Process) Report() Report {
	p.t.Helper()
	p.order(order{Report: true})
	for {
		if a := p.next(hostTime); a.Report != nil {
			return *a.Report
		}
	}
}

// Check compares what all hosts have seen, after all have stopped, and returns how many
// packets completed, and how many requests failed.
func Check(t testing.TB, all []*Process) (sent, failed int, longest time.Duration) {
	t.Helper()
	reports := make([]Report, len(all))
	for i, p := range all {
		reports[i] = p.Report()
		longest = max(longest, time.Duration(reports[i].MaxMS)*time.Millisecond)
	}
	for from, r := range reports {
		for to, s := range r.Peers {
			if from == to {
				continue
			}
			there := reports[to].Peers[from]
			missing := 0
			for _, span := range s.Sent {
				for n := span[0]; n < span[1]; n++ {
					if !there.Got.Has(n) {
						missing++
					}
				}
			}
			assert.Zero(t, missing, "%d to %d: completed, and not arrived", from, to)
			assert.Zero(t, there.Twice, "%d to %d: arrived twice", from, to)
			assert.Zero(t, there.Corrupt, "%d to %d: arrived changed", from, to)
			assert.Zero(t, there.BadSlots, "%d to %d: memory is not as written last", from, to)
			assert.NotZero(t, s.Writes+s.Reads, "%d to %d: RDMA", from, to)
			sent += s.Sent.Len()
			for _, n := range s.Failed {
				failed += n
			}
		}
	}
	return sent, failed, longest
}

// logger shows the standard error of a host as lines of the test.
type logger struct{ t testing.TB }

func (l *logger) Write(b []byte) (int, error) {
	l.t.Logf("host: %s", b)
	return len(b), nil
}
