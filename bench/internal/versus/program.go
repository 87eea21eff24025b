package versus

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// ErrAbsent is the error of Compile if the compiler, or what runs its programs, is not
// installed.
var ErrAbsent = errors.New("nothing to compare with")

// MPIExec is the name of MPICH's, in case mpiexec is another one.
const MPIExec = "mpiexec.hydra"

// MPICC returns the name of MPICH's compiler. Where Debian has Open MPI beside it, mpicc is
// that one's.
func MPICC() string {
	if _, err := exec.LookPath("mpicc.mpich"); err == nil {
		return "mpicc.mpich"
	}
	return "mpicc"
}

// Compile makes the C program name in dir of its source. The tools are the compiler and
// what else must be installed, by the Debian packages that the error names.
func Compile(ctx context.Context, dir, name string, source []byte, packages string, tools []string, flags ...string) (program string, err error) {
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%w (Debian: %s): %w", ErrAbsent, packages, err)
		}
	}
	program = filepath.Join(dir, name)
	if err := os.WriteFile(program+".c", source, 0o600); err != nil {
		return "", err
	}
	args := append([]string{"-O2", "-Wall", "-o", program, program + ".c"}, flags...)
	out, err := exec.CommandContext(ctx, tools[0], args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", tools[0], err, out)
	}
	return program, nil
}

// CompileMPI makes an MPICH program.
func CompileMPI(ctx context.Context, dir, name string, source []byte) (program string, err error) {
	return Compile(ctx, dir, name, source, "mpich", []string{MPICC(), MPIExec})
}

// MPIVersion is MPICH with its version, according to mpiexec.
func MPIVersion(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, MPIExec, "--version").Output()
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		if key, value, _ := bytes.Cut(lines.Bytes(), []byte(":")); string(bytes.TrimSpace(key)) == "Version" {
			return "MPICH " + string(bytes.TrimSpace(value))
		}
	}
	return "MPICH of unknown version"
}

// Output runs a program and returns its output; its log goes into the error.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, log.Bytes())
	}
	return out.Bytes(), nil
}
