package peers

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/bench/stream/contest"
)

const fiPingpong = "fi_pingpong"

// libfabric is Debian's: fi_pingpong over two of its providers.
func libfabric(context.Context, string) ([]Peer, error) {
	if _, err := exec.LookPath(fiPingpong); err != nil {
		return nil, fmt.Errorf("%w (Debian: libfabric-bin): %w", versus.ErrAbsent, err)
	}
	return []Peer{
		{Name: "libfabric-shm", Way: SHM, PingPong: fabricPingPong("shm")},
		{Name: "libfabric-tcp", Way: TCP, PingPong: fabricPingPong("tcp;ofi_rxm")},
	}, nil
}

// libfabricStreams are by C programs of package contest: fi_pingpong has none.
func libfabricStreams(ctx context.Context, dir string) ([]Peer, error) {
	shm, err := contest.Compile(ctx, dir, contest.Libfabric)
	if err != nil {
		return nil, err
	}
	fan, err := contest.CompileFan(ctx, dir, contest.Libfabric)
	if err != nil {
		return nil, err
	}
	tcp, err := contest.Compile(ctx, dir, contest.LibfabricTCP)
	return []Peer{
		{Name: "libfabric-shm", Way: SHM, Stream: shm.Run, Both: shm.Run, Fan: fan},
		{Name: "libfabric-tcp", Way: TCP, Stream: tcp.Run, Both: tcp.Run},
	}, err
}

func fabricPingPong(provider string) func(context.Context, int, int) (Trip, error) {
	return func(ctx context.Context, size, n int) (Trip, error) {
		args := []string{"-p", provider, "-e", "rdm", "-S", strconv.Itoa(size), "-I", strconv.Itoa(n)}
		t := tool{
			name:   fiPingpong,
			server: func(port string) []string { return append(args[:len(args):len(args)], "-B", port) },
			client: func(port string) []string { return append(args[:len(args):len(args)], "-P", port, "127.0.0.1") },
		}
		out, err := t.run(ctx)
		if err != nil {
			return Trip{}, err
		}
		half, err := parseFabric(out)
		return Trip{Half: half}, err
	}
}

// parseFabric finds usec/xfer in fi_pingpong's two lines.
func parseFabric(s string) (float64, error) {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) == 2 {
		heads, fields := strings.Fields(lines[0]), strings.Fields(lines[1])
		for i, h := range heads {
			if h == "usec/xfer" && i < len(fields) {
				return strconv.ParseFloat(fields[i], 64)
			}
		}
	}
	return 0, fmt.Errorf("no usec/xfer in %q", s)
}
