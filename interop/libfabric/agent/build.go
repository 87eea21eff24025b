package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
)

// Errors of Build and Version: requirements that the machine lacks.
var (
	ErrNoCompiler  = errors.New("agent: no C compiler (gcc)")
	ErrNoLibfabric = errors.New("agent: no libfabric headers and library (Debian: libfabric-dev)")
	ErrNoTools     = errors.New("agent: no fi_info (Debian: libfabric-bin)")
)

// Build compiles the C files of source into dir, and returns the program.
func Build(ctx context.Context, source, dir string) (string, error) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		return "", ErrNoCompiler
	}
	probe := exec.CommandContext(ctx, gcc, "-x", "c", "-", "-o", filepath.Join(dir, "probe"), "-lfabric")
	r, w, err := os.Pipe()
	if err != nil {
		return "", err
	}
	probe.Stdin = r
	_, err = w.WriteString("#include <rdma/fabric.h>\nint main(void) { return fi_version() == 0; }\n")
	if err := errors.Join(err, w.Close()); err != nil {
		return "", err
	}
	out, err := probe.CombinedOutput()
	_ = r.Close()
	if err != nil {
		return "", fmt.Errorf("%w: %s", ErrNoLibfabric, out)
	}
	files, err := filepath.Glob(filepath.Join(source, "*.c"))
	if err != nil || len(files) == 0 {
		return "", fmt.Errorf("agent: no C files in %s", source)
	}
	program := filepath.Join(dir, "agent")
	args := append([]string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o", program}, files...)
	if out, err := exec.CommandContext(ctx, gcc, append(args, "-lfabric")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("agent: gcc: %w\n%s", err, out)
	}
	return program, nil
}

var version = regexp.MustCompile(`(?m)^libfabric: (\S+)$`)

// Version is libfabric's, according to fi_info.
func Version(ctx context.Context) (string, error) {
	path, err := exec.LookPath("fi_info")
	if err != nil {
		return "", ErrNoTools
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	m := version.FindSubmatch(out)
	if err != nil || m == nil {
		return "", fmt.Errorf("agent: fi_info --version: %w: %q", err, out)
	}
	return string(m[1]), nil
}
