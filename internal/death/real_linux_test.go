package death

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// child is a victim's process.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	over  bool // all its operations have ended
}

func startChild(t testing.TB, o order) *child {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	c := &child{cmd: exec.Command(os.Args[0]), lines: make(chan string, 1000)}
	c.cmd.Env = append(os.Environ(), childVar+"="+string(text))
	c.cmd.Stderr = os.Stderr
	c.in, err = c.cmd.StdinPipe()
	require.NoError(t, err)
	out, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.lines)
		for sc := bufio.NewScanner(out); sc.Scan(); {
			c.lines <- sc.Text()
		}
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait()
	})
	return c
}

// until reads lines to one that begins so, and returns all.
func (c *child) until(begin string, d time.Duration) (lines []string, ok bool) {
	late := clock.NewTimer(d)
	defer late.Stop()
	for {
		select {
		case l, more := <-c.lines:
			if !more {
				return lines, false
			}
			c.over = c.over || l == "over"
			if lines = append(lines, l); strings.HasPrefix(l, begin) {
				return lines, true
			}
		case <-late.C:
			return lines, false
		}
	}
}

// realRow is a try with real processes.
type realRow struct {
	device string
	play   int
	role   int // the victim's
	at     moment
	fault  *realFault
}

func (x *realRow) String() string {
	return fmt.Sprintf("%s: %v, %s %s at %v", x.device, &plays()[x.play], sideNames[x.role], x.fault.name, x.at)
}

// realFault is what happens to a process: what it does to itself, and for how long it is stopped.
type realFault struct {
	name, do string
	stop     time.Duration
	mild     bool
	devices  string
}

var realFaults = []realFault{
	{name: "killed", do: "kill", devices: "shm tcp"},
	{name: "restarted", do: "kill", devices: "shm tcp"},
	{name: "stopped briefly", do: "stop", stop: realShort / 4, mild: true, devices: "shm tcp"},
	{name: "stopped long", do: "stop", stop: realShort * 5 / 2, devices: "shm tcp"},
	{name: "cut off", do: "cut", devices: "tcp"},
}

// stopped waits until none of the child's threads runs any more: SIGCONT before that ends
// nothing.
func (c *child) stopped(t testing.TB) {
	t.Helper()
	require.Eventually(t, func() bool {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid)) // the pattern is good
		return !slices.ContainsFunc(tasks, func(task string) bool {
			stat, err := os.ReadFile(task)
			_, state, ok := strings.Cut(string(stat), ") ")
			return err == nil && ok && state[0] != 'T'
		})
	}, time.Minute, time.Millisecond)
}

// couple starts a victim and the side that survives, and lets them meet.
func couple(t testing.TB, o order) (*child, *side) {
	t.Helper()
	c := startChild(t, o)
	p := play{}
	if o.Play >= 0 {
		p = plays()[o.Play]
	}
	own := o
	own.QPN = 0
	s, err := openReal(&own, &p, nil)
	require.NoError(t, err)
	other := c.join(t, s)
	if o.Play >= 0 {
		_, ok := c.until("ready", testenv.Hang)
		require.True(t, ok, "not ready")
		if o.Role == 0 {
			p.act(other, s)
		} else {
			p.act(s, other)
		}
	}
	return c, s
}

// join has a child and a side exchange addresses and a message each.
func (c *child) join(t testing.TB, s *side) *side {
	t.Helper()
	card, ok := c.until("", testenv.Hang)
	require.True(t, ok, "no card")
	other, err := s.meet(card[0])
	require.NoError(t, err)
	_, err = fmt.Fprintln(c.in, s.card())
	require.NoError(t, err)
	require.NoError(t, ask(s, s.to, testenv.Hang))
	require.NoError(t, s.known(t.Context()))
	_, err = fmt.Fprintln(c.in, "known")
	require.NoError(t, err)
	return other
}

// ask sends a message and waits for the answer.
func ask(s *side, to efa.Addr, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if err := s.ep.SendTag(ctx, to, askTag, []byte("question")); err != nil {
		return err
	}
	var b [8]byte
	_, err := s.ep.RecvTag(ctx, efa.Match{Tag: replyTag}, b[:])
	return err
}

// moments plays without a fault, and returns what the victim's tap sees.
func moments(t testing.TB, device, dir string, i, role int) (list []string) {
	t.Helper()
	c, s := couple(t, order{Device: device, Dir: dir, Play: i, Role: role})
	defer closeReal(t, s)
	s.postReal()
	ctx, cancel := context.WithTimeout(context.Background(), testenv.Hang)
	defer cancel()
	s.reapReal(ctx, func(*deed) {})
	require.True(t, s.over())
	lines, ok := c.until("over", testenv.Hang)
	require.True(t, ok)
	for _, l := range lines {
		if m, ok := strings.CutPrefix(l, "sees "); ok && !strings.HasSuffix(m, "HANDSHAKE") { // that comes when it likes
			list = append(list, m)
		}
	}
	return list
}

func closeReal(t testing.TB, s *side) {
	t.Helper()
	for _, c := range []io.Closer{s.ep, s.mem, s.buf, s.q, s.av, s.dom, s.fab} {
		require.NoError(t, c.Close())
	}
}

// realSlack is for a machine that does other things, too.
var realSlack = func() time.Duration {
	if testenv.All() {
		return 20 * time.Second
	}
	return testenv.Hang
}()

// try plays a row.
func (x *realRow) try(t *testing.T, dir string) (outcome, clean time.Duration) {
	f := x.fault
	o := order{Device: x.device, Dir: dir, Play: x.play, Role: x.role, At: x.at, Do: f.do, Brief: f.stop > realShort}
	if f.name == "restarted" && x.device == "tcp" { // no port that is given to others meanwhile
		o.QPN = uint16(freeport.Get(t))
	}
	c, s := couple(t, o)
	address := s.to
	s.postReal()
	lines, ok := c.until("strikes", testenv.Hang)
	require.True(t, ok, "%v: the packet did not come: %q", x, lines)
	struck := clock.System.Now()
	since := func() time.Duration { return clock.System.Now().Sub(struck) }
	if f.stop > 0 {
		c.stopped(t) // SIGCONT must not come before
		<-clock.NewTimer(f.stop).C
		require.NoError(t, c.cmd.Process.Signal(unix.SIGCONT))
	}
	limit := f.stop + o.patience() + realProbe + realSlack
	ctx, cancel := context.WithTimeout(context.Background(), limit-f.stop)
	defer cancel()
	dismissed := false
	for !s.over() && since() < limit {
		x.reap(ctx, t, s, func() { outcome = max(outcome, since()) })
		if !c.over {
			more, _ := c.until("over", time.Millisecond)
			lines = append(lines, more...)
		}
		if !dismissed && slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "done false send") }) {
			dismissed = true
			s.dismiss(t)
		}
	}
	if f.do != "kill" && !c.over && !(x.role == 1 && anyFailed(s)) { // else there may be nothing for it to receive
		more, _ := c.until("over", max(time.Second, limit-since()))
		if lines = append(lines, more...); !c.over {
			_, _ = fmt.Fprintln(c.in, "how")
			more, _ := c.until("left", testenv.Hang)
			t.Errorf("%v: the victim's operations have not ended: %q", x, append(lines, more...))
		}
	}
	cancel() // of receives that were made again
	for _, d := range s.deeds {
		if d.outcomes != 1 {
			t.Errorf("%v: %s has %d outcomes after %v", x, d.what, d.outcomes, since())
		}
	}
	for {
		snap, err := s.ep.Snapshot(context.Background())
		require.NoError(t, err)
		rest := left(snap)
		if len(rest) == 0 {
			break
		}
		if since() > limit {
			t.Errorf("%v: left after %v: %s", x, since(), strings.Join(rest, "; "))
			break
		}
		<-clock.NewTimer(5 * time.Millisecond).C
	}
	clean = since()
	if f.mild {
		if err := ask(s, address, realPatience+realSlack); err != nil {
			t.Errorf("%v: it is not as before: %v", x, err)
		}
	}
	fresh := order{Device: x.device, Dir: dir, Play: -1}
	if f.name == "restarted" {
		a, err := s.av.Lookup(address)
		require.NoError(t, err)
		raw, _ := a.Raw(x.device)
		_ = c.cmd.Wait()
		fresh.QPN = raw.QPN()
	}
	startChild(t, fresh).join(t, s)
	closeReal(t, s)
	return outcome, clean
}

// reap takes outcomes for a moment.
func (x *realRow) reap(ctx context.Context, t *testing.T, s *side, each func()) {
	t.Helper()
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	s.reapReal(short, func(d *deed) {
		each()
		if d.what == "receive" && d.err != nil && d.proto == "-" {
			go s.receiveAgain(ctx, d)
		}
		if x.fault.mild && d.err != nil {
			t.Errorf("%v: %s: %v", x, d.what, d.err)
		}
		if d.err == nil && d.want != nil && !bytes.Equal(d.into[:len(d.want)], d.want) {
			t.Errorf("%v: %s: other data", x, d.what)
		}
	})
}

// dismiss cancels receives for which there is nothing.
func (s *side) dismiss(t *testing.T) {
	t.Helper()
	for _, d := range s.deeds {
		if d.outcomes == 0 && d.what == "receive" {
			require.NoError(t, s.ep.Cancel(d.id))
		}
	}
}

// receiveAgain takes a message that comes after its receive has failed, as an application
// would.
func (s *side) receiveAgain(ctx context.Context, d *deed) {
	if d.tagged {
		_, _ = s.ep.RecvTag(ctx, efa.Match{Tag: 5}, make([]byte, len(d.into)))
		return
	}
	_, _ = s.ep.Recv(ctx, make([]byte, len(d.into))) // there may be none
}

func anyFailed(s *side) bool {
	return slices.ContainsFunc(s.deeds, func(d *deed) bool { return d.err != nil })
}

// TestRealDeaths tries some rows on real processes: of the subprotocols and roles the
// first, the middle and the last packet, by turns with each fault.
func TestRealDeaths(t *testing.T) {
	for _, device := range []string{"shm", "tcp"} {
		t.Run(device, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Chmod(dir, 0o700))
			list := realRows(t, device, dir)
			type line struct {
				n              int
				outcome, clean time.Duration
			}
			table := map[string]*line{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			turn := make(chan struct{}, 6)
			for _, x := range list {
				wg.Go(func() {
					turn <- struct{}{}
					defer func() { <-turn }()
					var outcome, clean time.Duration
					t.Run(x.String(), func(t *testing.T) { outcome, clean = x.try(t, dir) })
					mu.Lock()
					defer mu.Unlock()
					l := table[x.fault.name]
					if l == nil {
						l = new(line)
						table[x.fault.name] = l
					}
					l.n++
					l.outcome, l.clean = max(l.outcome, outcome), max(l.clean, clean)
				})
			}
			wg.Wait()
			for _, f := range realFaults {
				if l := table[f.name]; l != nil {
					t.Logf("%s %-20s %3d rows, worst outcome %8v, all is back %8v", device, f.name, l.n,
						l.outcome.Round(time.Millisecond), l.clean.Round(time.Millisecond))
				}
			}
		})
	}
}

// realRows lists what is tried on a device.
func realRows(t *testing.T, device, dir string) (list []*realRow) {
	t.Helper()
	k, some := 0, 3
	if testenv.Short() {
		some = 5
	}
	for i, p := range plays() {
		if p.variant != "" || p.fickle {
			continue
		}
		for role := range 2 {
			if !*flagAll && *flagRows == "" && (2*i+role)%some != len(device)%2 {
				continue
			}
			if *flagRows != "" && !strings.Contains(fmt.Sprintf("%s: %v, %s", device, &p, sideNames[role]), *flagRows) {
				continue
			}
			seen := moments(t, device, dir, i, role)
			if len(seen) == 0 {
				continue // RDMA that its device carries out alone
			}
			text := seen[k%3*(len(seen)-1)/2]
			var m moment
			var way string
			_, err := fmt.Sscanf(text, "%s %d", &way, &m.Nth)
			require.NoError(t, err)
			m.Out = way == "out"
			m.Type = strings.SplitN(text, " ", 3)[2]
			for !strings.Contains(realFaults[k%len(realFaults)].devices, device) {
				k++
			}
			for n := range realFaults {
				f := &realFaults[n]
				if *flagFaults == "" && n == k%len(realFaults) ||
					*flagFaults != "" && strings.Contains(f.name, *flagFaults) && strings.Contains(f.devices, device) {
					list = append(list, &realRow{device, i, role, m, f})
				}
			}
			k++
		}
	}
	return slices.SortedFunc(slices.Values(list), func(a, b *realRow) int { return cmp.Compare(b.fault.stop, a.fault.stop) })
}
