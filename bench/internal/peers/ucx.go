package peers

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/contest"
	"github.com/efactor/efactor/bench/stream/flow"
)

const ucxPerftest = "ucx_perftest"

// ucx is UCX's own measurement, of tagged messages.
func ucx(context.Context, string) ([]Peer, error) {
	if _, err := exec.LookPath(ucxPerftest); err != nil {
		return nil, fmt.Errorf("%w (Debian: ucx-utils): %w", versus.ErrAbsent, err)
	}
	var list []Peer
	for _, way := range ucxWays {
		u := way.transports
		list = append(list, Peer{Name: "ucx-" + way.name, Way: way.name, PingPong: u.pingPong, Stream: u.stream})
	}
	return list, nil
}

// ucxStreams are by C programs of package contest, for what ucx_perftest cannot do: both ways, several
// senders, and one way where it is not installed.
func ucxStreams(ctx context.Context, dir string) (list []Peer, err error) {
	for _, way := range ucxWays {
		s, err := contest.Compile(ctx, dir, contest.UCX, way.transports.environment()...)
		if err != nil {
			return nil, err
		}
		p := Peer{Name: "ucx-" + way.name, Way: way.name, Both: s.Run}
		if _, err := exec.LookPath(ucxPerftest); err != nil {
			p.Stream = s.Run
		}
		list = append(list, p)
	}
	list[0].Fan, err = contest.CompileFan(ctx, dir, contest.UCX, ucxWays[0].transports.environment()...) // which is shared memory
	return list, err
}

// ucxWay is a list of transports.
type ucxWay string

var ucxWays = []struct {
	name       string
	transports ucxWay
}{{SHM, "posix,cma,self"}, {TCP, "tcp,self"}}

func (u ucxWay) environment() []string {
	return []string{"UCX_TLS=" + string(u), "UCX_WARN_UNUSED_ENV_VARS=n"}
}

func (u ucxWay) run(ctx context.Context, args ...string) (map[string]float64, error) {
	t := tool{
		name:   ucxPerftest,
		env:    u.environment(),
		server: func(port string) []string { return []string{"-p", port} },
		client: func(port string) []string { return append([]string{"127.0.0.1", "-p", port, "-f", "-v"}, args...) },
	}
	out, err := t.run(ctx)
	if err != nil {
		return nil, err
	}
	return parseUCX(out)
}

func (u ucxWay) pingPong(ctx context.Context, size, n int) (Trip, error) {
	m, err := u.run(ctx, "-t", "tag_lat", "-s", strconv.Itoa(size), "-n", strconv.Itoa(n), "-w", strconv.Itoa(warm(n)))
	return Trip{Half: m["overall_lat"]}, err
}

// stream has the window of the plan; there are no answers on the way, and the clock is the
// sender's.
func (u ucxWay) stream(ctx context.Context, p flow.Plan) (*flow.Result, error) {
	m, err := u.run(ctx, "-t", "tag_bw", "-s", strconv.Itoa(p.Size), "-n", strconv.Itoa(p.Count), "-w", strconv.Itoa(p.Warm),
		"-O", strconv.Itoa(p.Window))
	if err != nil {
		return nil, err
	}
	rate := m["overall_mr"]
	if rate <= 0 {
		return nil, fmt.Errorf("unexpected rate %g", rate)
	}
	return &flow.Result{Count: p.Count, Nanos: []int64{int64(float64(p.Count) / rate * 1e9)}}, nil
}

// parseUCX reads ucx_perftest's last two lines, of names and of figures.
func parseUCX(s string) (map[string]float64, error) {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) < 2 {
		return nil, fmt.Errorf("unexpected output %q", s)
	}
	names, fields := strings.Split(lines[len(lines)-2], ","), strings.Split(lines[len(lines)-1], ",")
	if len(names) != len(fields) || len(names) < 2 {
		return nil, fmt.Errorf("unexpected output %q", s)
	}
	m := map[string]float64{}
	for i, name := range names {
		v, err := strconv.ParseFloat(strings.TrimSpace(fields[i]), 64)
		if err != nil {
			return nil, fmt.Errorf("unexpected output %q: %w", s, err)
		}
		m[name] = v
	}
	return m, nil
}
