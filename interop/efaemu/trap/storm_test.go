//go:build linux && (amd64 || arm64)

package trap

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() { roles["storm"] = storm }

// storm makes as many requests as its first argument says, while each of its
// second argument's threads gets signals all the time.
func storm(args []string) error {
	calls, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	fd, err := unix.Open(DevicePath, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	tid := unix.Gettid()
	var stop atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for args[1] == "signals" && !stop.Load() {
			_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG)
		}
	}()
	for range calls {
		if _, _, err := request(fd, opCount, 0); err != nil {
			return err
		}
	}
	for range calls / 10 { // opening is a call like any other
		fd, err := unix.Open(DevicePath, unix.O_RDWR, 0)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		err = errors.Join(unix.Fstat(fd, &st), isDeviceStat(&st))
		if err = errors.Join(err, unix.Close(fd)); err != nil {
			return fmt.Errorf("descriptor %d: %w", fd, err)
		}
	}
	stop.Store(true)
	<-stopped
	fmt.Println("done")
	return nil
}

// A signal that comes while a call is served must not make the kernel start it
// over: WAIT_KILLABLE_RECV. Without it a few in a thousand are served twice.
func TestCallsAreServedOnce(t *testing.T) {
	const calls = 2000
	d, stats := newFake(), new(Stats)
	j := run(t, Config{Device: d, Stats: stats}, "storm", strconv.Itoa(calls), "signals")
	require.Equal(t, "done", j.line())
	status, _, err := j.wait()
	require.NoError(t, err)
	require.Zero(t, status)
	require.Equal(t, int64(calls), d.ioctls.Load())
	require.Equal(t, int64(calls), int64(stats.Ioctls.Load()))
	require.Equal(t, int64(1+calls/10), d.opened.Load())
	require.Zero(t, d.live())
}

// A signal to the supervisor, which Go's scheduler sends whenever a thread has run for
// long, must not come between the installation of a descriptor and the answer with its
// number: the program would get 0.
func TestSupervisorGetsSignals(t *testing.T) {
	const calls = 5000
	d := newFake()
	j := run(t, Config{Device: d}, "storm", strconv.Itoa(calls), "quiet")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		self := os.Getpid()
		for {
			tasks, _ := os.ReadDir("/proc/self/task")
			for _, task := range tasks {
				tid, _ := strconv.Atoi(task.Name())
				for range 20 {
					_ = unix.Tgkill(self, tid, unix.SIGURG)
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	status, out, err := j.wait()
	close(stop)
	<-stopped
	require.NoError(t, err)
	require.Zero(t, status)
	require.Equal(t, "done\n", out)
	require.Equal(t, int64(1+calls/10), d.opened.Load())
	require.Zero(t, d.live())
}

func BenchmarkIoctl(b *testing.B) {
	d := newFake()
	b.ReportAllocs()
	j := run(b, Config{Device: d}, "storm", strconv.Itoa(b.N), "quiet")
	status, _, err := j.wait()
	require.NoError(b, err)
	require.Zero(b, status)
}
