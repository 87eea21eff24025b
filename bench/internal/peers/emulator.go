package peers

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/efactor/efactor/bench/internal/versus"
	"github.com/efactor/efactor/internal/freeport"
)

// EFA is the way over the EFA device, which is emulated.
const EFA = "efa"

// Emulator gives programs an EFA device.
type Emulator struct {
	// Command goes before a program; the processes that it starts have the device, too.
	Command []string

	fabric string
}

// Emulate builds this repository's emulator in dir, and tries it.
func Emulate(ctx context.Context, dir string) (*Emulator, error) {
	program := dir + "/efaemu"
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/efactor/efactor/interop/efaemu")
	if _, err := versus.Output(build); err != nil {
		return nil, fmt.Errorf("build efaemu (in the directory bench): %w", err)
	}
	if out, err := exec.CommandContext(ctx, program, "check").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("efaemu check: %w: %s", err, out)
	}
	fabric, err := os.MkdirTemp("/dev/shm", "efactor-bench")
	if err != nil {
		return nil, err
	}
	return &Emulator{Command: []string{program, "run", "-fabric", fabric, "--"}, fabric: fabric}, nil
}

// Close removes what the emulator left.
func (e *Emulator) Close() error { return os.RemoveAll(e.fabric) }

// bothSides runs fi_pingpong's server and client under one emulator, as efactor's two
// processes are. The client is started when the kernel has the server's port among those
// where a program listens (0A), as a client without a server ends at once.
const bothSides = `fi_pingpong "$@" -B "$port" >/dev/null & server=$!
listens() { [ ! -r /proc/net/tcp ] || grep -qsE ": [0-9A-F]+:$hex [0-9A-F:]+ 0A " /proc/net/tcp /proc/net/tcp6; }
until listens && fi_pingpong "$@" -P "$port" 127.0.0.1; do kill -0 $server || exit 1; sleep 0.02; done
wait $server`

// Libfabric is its efa provider on the emulated device.
func (e *Emulator) Libfabric() (Peer, error) {
	if _, err := exec.LookPath(fiPingpong); err != nil {
		return Peer{}, fmt.Errorf("%w (Debian: libfabric-bin): %w", versus.ErrAbsent, err)
	}
	return Peer{Name: "libfabric-efa", Way: EFA, PingPong: e.pingPong}, nil
}

func (e *Emulator) pingPong(ctx context.Context, size, n int) (Trip, error) {
	port, err := freeport.Find()
	if err != nil {
		return Trip{}, err
	}
	args := append(e.Command[1:len(e.Command):len(e.Command)], "sh", "-c", bothSides, "sh",
		"-p", "efa", "-e", "rdm", "-S", strconv.Itoa(size), "-I", strconv.Itoa(n))
	cmd := exec.CommandContext(ctx, e.Command[0], args...)
	// Its own shared memory would leave the device alone, and 1.17 must be told to use RDMA.
	cmd.Env = append(cmd.Environ(), "port="+strconv.Itoa(port), fmt.Sprintf("hex=%04X", port), "FI_EFA_ENABLE_SHM_TRANSFER=0", "FI_EFA_USE_DEVICE_RDMA=1")
	out, err := versus.Output(cmd)
	if err != nil {
		return Trip{}, err
	}
	half, err := parseFabric(string(out))
	return Trip{Half: half}, err
}
