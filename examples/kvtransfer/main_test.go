package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m, main) }

// command makes one that ends with the test.
func command(t *testing.T, device string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	if device == "shm" {
		device += ":" + filepath.Join(t.TempDir(), "fabric")
	}
	cmd := exec.CommandContext(ctx, testenv.Program(t), args...)
	cmd.Env = append(os.Environ(), "EFACTOR_DEVICE="+device)
	return cmd
}

// TestOutput starts the program as a user would.
func TestOutput(t *testing.T) {
	for _, device := range []string{"shm", "tcp"} {
		t.Run(device, func(t *testing.T) {
			cmd := command(t, device, "-rounds", "2", "-pages", "4")
			var log strings.Builder
			cmd.Stderr = &log
			out, err := cmd.Output()
			require.NoError(t, err, log.String())
			line := `: 32 layers, 8\.4 MB in \d+\.\d{3} s, \d+\.\d\d GB/s\n`
			require.Regexp(t, regexp.MustCompile(`^round 0`+line+`round 1`+line+`256 pages, all as they were written\n$`), string(out))
			require.Equal(t, 16, strings.Count(log.String(), "layer "), log.String())
			require.Contains(t, log.String(), "round 1 [################................] layer 16 of 32\n")
		})
	}
}

// TestKilledPrefill: the decode process ends with an error that says what it has waited for.
func TestKilledPrefill(t *testing.T) {
	for _, device := range []string{"shm", "tcp"} {
		t.Run(device, func(t *testing.T) {
			env := append(command(t, device).Env, "EFACTOR_SIZE=2", "EFACTOR_LOCAL_SIZE=2", "EFACTOR_LAUNCHER=env",
				fmt.Sprintf("EFACTOR_RENDEZVOUS=127.0.0.1:%d", freeport.Get(t)))
			start := func(rank int) (*exec.Cmd, *bufio.Scanner) {
				cmd := command(t, device, "-rounds", "1000000", "-pages", "2")
				cmd.Env = append(env[:len(env):len(env)], fmt.Sprintf("EFACTOR_RANK=%d", rank), fmt.Sprintf("EFACTOR_LOCAL_RANK=%d", rank))
				log, err := cmd.StderrPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				return cmd, bufio.NewScanner(log)
			}
			decode, log := start(decodeRank)
			prefill, other := start(prefillRank)
			go func() {
				for other.Scan() {
				}
			}()
			var last bytes.Buffer
			killed := false
			for log.Scan() {
				if !killed && strings.Contains(log.Text(), "layer 16 of 32") {
					killed = true
					require.NoError(t, prefill.Process.Kill())
				}
				last.Reset()
				last.WriteString(log.Text())
			}
			require.True(t, killed, last.String())
			require.ErrorContains(t, decode.Wait(), "exit status 1", last.String())
			require.Regexp(t, `^\S+: round \d+(, layer \d+: efa: wait: \d of 2 writes with values \d+ to \d+ have arrived: wait|: efa: send), peer 1 \(rank 1 on [^)]+\): `, last.String())
			_ = prefill.Wait() // it was killed
		})
	}
}
