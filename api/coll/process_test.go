package coll_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/efactor/efactor/api/coll"
	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/internal/testenv"
)

// Ranks as processes: this test's binary, started with its task in the environment.
// Addresses go by standard output and input.
const (
	envJob  = "COLL_TEST_JOB"
	envRank = "COLL_TEST_RANK"
	envSize = "COLL_TEST_SIZE"
	envArg  = "COLL_TEST_ARG"
)

var jobs = map[string]func(ctx context.Context, c *coll.Comm, arg string) error{}

func TestMain(m *testing.M) {
	if job := os.Getenv(envJob); job != "" {
		if err := runJob(job); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func runJob(job string) (err error) {
	rank, _ := strconv.Atoi(os.Getenv(envRank))
	size, _ := strconv.Atoi(os.Getenv(envSize))
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	fab, err := efa.Open(efa.Config{})
	if err != nil {
		return err
	}
	dom, err := fab.OpenDomain(efa.DomainConfig{})
	if err != nil {
		return err
	}
	av := dom.NewAddressVector()
	protocol := efa.ProtocolConfig{PeerTimeout: 5 * testenv.Hang}
	if d, err := time.ParseDuration(os.Getenv(envArg)); err == nil {
		protocol.PeerTimeout, protocol.ProbeAfter = d, d/4
	}
	ep, err := dom.NewEndpoint(efa.EndpointConfig{AV: av, Protocol: protocol})
	if err != nil {
		return err
	}
	if err := ep.Enable(ctx); err != nil {
		return err
	}
	fmt.Println(ep.Address())
	in := bufio.NewScanner(os.Stdin)
	cfg := coll.Config{Endpoint: ep, Rank: rank}
	for range size {
		in.Scan()
		a, err := efa.ParseAddress(in.Text())
		if err != nil {
			return err
		}
		to, err := av.Insert(a)
		if err != nil {
			return err
		}
		cfg.Peers = append(cfg.Peers, to)
	}
	c, err := coll.New(cfg)
	if err != nil {
		return err
	}
	if err := jobs[job](ctx, c, os.Getenv(envArg)); err != nil {
		return err
	}
	if err := c.Close(ctx); err != nil {
		return err
	}
	return ep.Shutdown(ctx)
}

// process is a rank.
type process struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Scanner
}

// startProcesses starts n ranks of a job.
func startProcesses(t testing.TB, n int, job, arg string) []*process {
	ps := make([]*process, n)
	var all strings.Builder
	ins := make([]io.WriteCloser, n)
	for i := range ps {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), envJob+"="+job, envArg+"="+arg,
			fmt.Sprint(envRank, "=", i), fmt.Sprint(envSize, "=", n))
		cmd.Stderr = os.Stderr
		var err error
		ins[i], err = cmd.StdinPipe()
		require.NoError(t, err)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		ps[i] = &process{cmd, ins[i], bufio.NewScanner(out)}
	}
	for _, p := range ps {
		require.True(t, p.out.Scan())
		fmt.Fprintln(&all, p.out.Text())
	}
	for _, in := range ins {
		_, err := io.WriteString(in, all.String())
		require.NoError(t, err)
	}
	return ps
}

// wait returns the process's output after its address, and its error.
func (p *process) wait() (string, error) {
	var b strings.Builder
	for p.out.Scan() {
		fmt.Fprintln(&b, p.out.Text())
	}
	return b.String(), p.cmd.Wait()
}
