package second

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The tests' second process is the test binary: its task is its argument.
func TestMain(m *testing.M) {
	switch {
	case Is():
		os.Exit(secondProcess(os.Args[1], os.Args[2:]))
	case os.Getenv("SECOND_TEST_FIRST") != "":
		p, err := Start([]string{"obey", os.Args[1]})
		if err != nil {
			panic(err)
		}
		_ = p.Wait(context.Background())
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func secondProcess(what string, args []string) int {
	ctx, cancel := Bound(context.Background())
	defer cancel()
	switch what {
	case "succeed":
		return 0
	case "fail":
		fmt.Fprintf(os.Stderr, "first line\nthe reason\n\n")
		return 7
	case "fail silently":
		return 8
	case "obey", "linger":
		if len(args) > 0 { // shows the test that it lives, by a connection
			c, err := net.Dial("tcp", args[0])
			if err != nil {
				panic(err)
			}
			defer c.Close()
			_, _ = c.Write([]byte("!"))
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), errFirst) {
			return 9
		}
		if what == "linger" {
			// For ever; select {} is a deadlock where Go is built without cgo.
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				panic(err)
			}
			_, _ = l.Accept()
		}
		return 0
	}
	return 10
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestSuccess(t *testing.T) {
	require.False(t, Is())
	p, err := Start([]string{"succeed"})
	require.NoError(t, err)
	ctx, cancel := p.Bind(within(t))
	defer cancel()
	require.NoError(t, p.Wait(ctx))
	require.NoError(t, ctx.Err(), "only failure ends it")
}

func TestFailure(t *testing.T) {
	for what, says := range map[string]string{
		"fail":          "second process: exit status 7: the reason",
		"fail silently": "second process: exit status 8",
	} {
		p, err := Start([]string{what})
		require.NoError(t, err)
		ctx, cancel := p.Bind(within(t))
		<-ctx.Done()
		require.EqualError(t, context.Cause(ctx), says)
		require.EqualError(t, p.Wait(ctx), says)
		cancel()
	}
}

func TestEndsWhenTold(t *testing.T) {
	p, err := Start([]string{"obey"})
	require.NoError(t, err)
	p.grace = time.Minute // on a busy machine it may have to begin yet
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	require.NoError(t, p.Wait(ctx))
}

func TestKilledWhenItDoesNotEnd(t *testing.T) {
	p, err := Start([]string{"linger"})
	require.NoError(t, err)
	p.grace = 50 * time.Millisecond
	ctx, cancel := context.WithCancel(within(t))
	cancel()
	require.EqualError(t, p.Wait(ctx), "second process: signal: killed")
}

// TestDiesWithTheFirst kills a first process, which can't stop its second any more.
func TestDiesWithTheFirst(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	exe, err := os.Executable()
	require.NoError(t, err)
	first := exec.Command(exe, l.Addr().String())
	first.Env = append(os.Environ(), "SECOND_TEST_FIRST=1")
	require.NoError(t, first.Start())
	t.Cleanup(func() { _ = first.Process.Kill() }) // if the test ends early
	c, err := l.Accept()
	require.NoError(t, err)
	defer c.Close()
	d, _ := within(t).Deadline()
	require.NoError(t, c.SetReadDeadline(d))
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err, "it lives")

	require.NoError(t, first.Process.Kill())
	_ = first.Wait()
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}

func TestTail(t *testing.T) {
	var p tail
	require.Empty(t, p.last())
	for i := range 10_000 {
		_, err := fmt.Fprintf(&p, "line %d\n", i)
		require.NoError(t, err)
	}
	require.Equal(t, ": line 9999", p.last())
	require.LessOrEqual(t, len(p.b), tailLen)
	_, err := p.Write(make([]byte, 3*tailLen))
	require.NoError(t, err)
	require.Len(t, p.b, tailLen)
}
