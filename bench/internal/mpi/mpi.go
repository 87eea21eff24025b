package mpi

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/efactor/efactor/bench/internal/versus"
)

// MPI is an implementation.
type MPI struct {
	Name     string
	Packages string // of Debian

	compilers, launchers []string // by preference
	arguments            func(ranks int) []string
}

// The implementations. Debian has both beside each other, under these names; mpicc alone is
// one of the two.
var (
	MPICH = MPI{
		Name: "MPICH", Packages: "mpich",
		compilers: []string{"mpicc.mpich", "mpicc"}, launchers: []string{"mpiexec.hydra"},
		arguments: func(int) []string { return nil },
	}
	OpenMPI = MPI{
		Name: "Open MPI", Packages: "openmpi-bin libopenmpi-dev",
		compilers: []string{"mpicc.openmpi"}, launchers: []string{"mpirun.openmpi"},
		arguments: openArguments,
	}
)

// openArguments allow what Open MPI refuses otherwise: root, and more ranks than cores.
func openArguments(ranks int) (args []string) {
	if os.Geteuid() == 0 {
		args = append(args, "--allow-run-as-root")
	}
	if ranks > runtime.NumCPU() {
		args = append(args, "--oversubscribe")
	}
	return args
}

// Compiler is the name of the C compiler.
func (m *MPI) Compiler() string { return installed(m.compilers) }

// Launcher is the name of the program that starts ranks.
func (m *MPI) Launcher() string { return installed(m.launchers) }

// installed is the first that is, or the last.
func installed(names []string) string {
	for _, n := range names {
		if _, err := exec.LookPath(n); err == nil {
			return n
		}
	}
	return names[len(names)-1]
}

// Compile makes the C program name in dir of its source. The error is versus.ErrAbsent if
// the implementation is not installed.
func (m *MPI) Compile(ctx context.Context, dir, name string, source []byte) (program string, err error) {
	return versus.Compile(ctx, dir, name, source, m.Packages, []string{m.Compiler(), m.Launcher()})
}

// Command starts a program as so many ranks. The options are the launcher's.
func (m *MPI) Command(ranks int, program string, options ...string) []string {
	command := append([]string{m.Launcher()}, m.arguments(ranks)...)
	command = append(command, options...)
	return append(command, "-n", strconv.Itoa(ranks), program)
}

// Version is the name with the version, according to the launcher.
func (m *MPI) Version(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, m.Launcher(), append(m.arguments(1), "--version")...).Output()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if v := version(lines.Bytes()); v != "" {
			return fmt.Sprintf("%s %s", m.Name, v)
		}
	}
	return m.Name + " of unknown version"
}

// version finds it in a line: "Version: 4.0.2", or "mpirun (Open MPI) 4.1.4", which calls
// itself OpenRTE in some builds.
func version(line []byte) string {
	if bytes.HasPrefix(line, []byte("mpirun")) {
		if _, rest, ok := bytes.Cut(line, []byte(") ")); ok {
			return string(bytes.TrimSpace(rest))
		}
	}
	if key, value, _ := bytes.Cut(line, []byte(":")); string(bytes.TrimSpace(key)) == "Version" {
		return string(bytes.TrimSpace(value))
	}
	return ""
}
