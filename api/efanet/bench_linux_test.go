package efanet_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkJSON is JSON requests and their replies, of about size bytes each: on one connection and on eight to
// another process, and within this process on eight. A switch is one of a thread's that waits, of both sides.
func BenchmarkJSON(b *testing.B) {
	everywhere(b, func(int) string { return "json0000" }, askJSON)
}

// BenchmarkBytes is BenchmarkJSON without JSON, which takes most of the time of long documents.
func BenchmarkBytes(b *testing.B) {
	everywhere(b, func(size int) string { return fmt.Sprintf("e%07d", size) }, askBytes)
}

// everywhere runs a benchmark with all numbers of connections and all sizes, on connections that begin with hello.
func everywhere(b *testing.B, hello func(size int) string, ask func(c net.Conn, size, n int) error) {
	for _, where := range []struct {
		name  string
		conns int
		here  bool
	}{{"conns=1", 1, false}, {"conns=8", 8, false}, {"conns=8,here", 8, true}} {
		for _, size := range []int{64, 4 << 10, 64 << 10, 1 << 20} {
			for _, d := range dialers {
				b.Run(fmt.Sprintf("%s/size=%d/on=%s", where.name, size, d.on), func(b *testing.B) {
					at, pid := "", 0
					if where.here {
						l, err := listenOn(d.on)
						require.NoError(b, err)
						defer l.Close()
						go serveOn(l) //nolint:errcheck // it ends with the listener
						at = l.Addr().String()
					} else {
						var cmd *exec.Cmd
						at, cmd = process(b, d.on)
						pid = cmd.Process.Pid
					}
					var conns []net.Conn
					for range where.conns {
						c, err := d.dial(soon(b), at)
						require.NoError(b, err)
						defer c.Close()
						_, err = io.WriteString(c, hello(size))
						require.NoError(b, err)
						conns = append(conns, c)
					}
					askAll(b, conns, size, pid, ask)
				})
			}
		}
	}
}

// askAll shares b.N requests out among connections.
func askAll(b *testing.B, conns []net.Conn, size, pid int, ask func(c net.Conn, size, n int) error) {
	before := spentBy(pid)
	b.ResetTimer()
	var all sync.WaitGroup
	for i, c := range conns {
		n := b.N / len(conns)
		if i < b.N%len(conns) {
			n++
		}
		all.Go(func() {
			if err := ask(c, size, n); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	b.StopTimer()
	after := spentBy(pid)
	b.ReportMetric(float64(after.cpu-before.cpu)/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(after.switches-before.switches)/float64(b.N), "switches/op")
}

func askJSON(c net.Conn, size, n int) error {
	to, from := json.NewEncoder(c), json.NewDecoder(c)
	body := strings.Repeat("x", max(size-20, 1))
	for id := range n {
		var got document
		if err := to.Encode(document{id, body}); err != nil {
			return err
		}
		if err := from.Decode(&got); err != nil || got.ID != id {
			return fmt.Errorf("reply %d to %d: %w", got.ID, id, err)
		}
	}
	return nil
}

func askBytes(c net.Conn, size, n int) error {
	p := make([]byte, size)
	for range n {
		if _, err := c.Write(p); err != nil {
			return err
		}
		if _, err := io.ReadFull(c, p); err != nil {
			return err
		}
	}
	return nil
}

// spent is what this process and another one have spent: processor time, and how often threads of theirs have waited.
type spent struct {
	cpu      time.Duration
	switches int64
}

func spentBy(pid int) (s spent) {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it has no error
	s = spent{time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Nvcsw}
	if pid == 0 {
		return s
	}
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|2), &t) == nil { // the processor time of all threads of pid
		s.cpu += time.Duration(t.Nano())
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	for _, t := range threads {
		text, _ := os.ReadFile(t) // of a thread that has ended
		if _, text, ok := strings.Cut(string(text), "\nvoluntary_ctxt_switches:"); ok {
			var k int64
			_, _ = fmt.Sscan(text, &k)
			s.switches += k
		}
	}
	return s
}
