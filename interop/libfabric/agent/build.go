package agent

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/efactor/efactor/interop/libfabric/install"
)

// Errors of Build: requirements that the machine lacks.
var (
	ErrNoCompiler  = errors.New("agent: no C compiler (gcc)")
	ErrNoLibfabric = errors.New("agent: no libfabric headers and library (Debian: libfabric-dev)")
)

// Build compiles the C files of source into dir, for the libfabric of in, and returns
// the command that runs the program.
func Build(ctx context.Context, in install.Installation, source, dir string) ([]string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return nil, ErrNoCompiler
	}
	probe := exec.CommandContext(ctx, gcc, append([]string{"-x", "c", "-", "-o", filepath.Join(dir, "probe")}, in.Flags()...)...)
	probe.Stdin = strings.NewReader("#include <rdma/fabric.h>\nint main(void) { return fi_version() == 0; }\n")
	if out, err := probe.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", ErrNoLibfabric, out)
	}
	files, err := filepath.Glob(filepath.Join(source, "*.c"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("agent: no C files in %s", source)
	}
	program := filepath.Join(dir, "agent")
	args := append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", program}, files...)
	if out, err := exec.CommandContext(ctx, gcc, append(args, in.Flags()...)...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("agent: gcc: %w\n%s", err, out)
	}
	return in.Command(program), nil
}

// Version starts the program and asks which release the library is that it runs on.
func Version(ctx context.Context, command []string) (string, error) {
	a, err := Start(ctx, Config{Command: command})
	if err != nil {
		return "", err
	}
	return a.Version(), a.Stop(ctx)
}
