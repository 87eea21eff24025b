package versus

import (
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

// Output runs a program as Start and Wait do, and returns its output; its log goes into the
// error.
func Output(cmd *exec.Cmd) ([]byte, error) {
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := Start(cmd)
	if err == nil {
		err = Wait(cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, log.Bytes())
	}
	return out.Bytes(), nil
}
