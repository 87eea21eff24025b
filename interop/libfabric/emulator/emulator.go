package emulator

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrUnsupported is of machines on which the emulator cannot work.
var ErrUnsupported = errors.New("emulator: not on this machine")

// Program is a built emulator.
type Program string

// Build builds the emulator into dir, and checks that it can work here.
func Build(ctx context.Context, dir string) (Program, error) {
	path := filepath.Join(dir, "efaemu")
	build := exec.CommandContext(ctx, "go", "build", "-o", path, "github.com/efactor/efactor/interop/efaemu")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("emulator: go build: %w\n%s", err, out)
	}
	out, err := exec.CommandContext(ctx, path, "check").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", ErrUnsupported, strings.TrimSpace(string(out)))
	}
	return Program(path), nil
}

// Device is a device to give to programs.
type Device struct {
	Fabric    string // directory
	Profile   string // "": the emulator's default
	RDMARead  bool
	RDMAWrite bool // false: as the profile has it
	Shuffle   int  // packets held back, 0: none
	Seed      uint64
}

// Command is the line that runs a program with the device.
func (p Program) Command(d Device, program ...string) []string {
	line := []string{string(p), "run", "-fabric", d.Fabric, "-rdma-read=" + strconv.FormatBool(d.RDMARead)}
	if d.Profile != "" {
		line = append(line, "-profile", d.Profile)
	}
	if d.RDMAWrite {
		line = append(line, "-rdma-write=true")
	}
	if d.Shuffle > 0 {
		line = append(line, "-shuffle", strconv.Itoa(d.Shuffle), "-seed", strconv.FormatUint(d.Seed, 10))
	}
	return append(append(line, "--"), program...)
}
