//go:build linux && (amd64 || arm64)

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
	"github.com/efactor/efactor/internal/testenv"
	"github.com/efactor/efactor/runtime/clock"
)

// kvtransfer is the built example, which takes a card.
func kvtransfer(t *testing.T) string {
	needFeatures(t)
	prog := filepath.Join(t.TempDir(), "kvtransfer")
	out, err := exec.Command("go", "build", "-o", prog, "github.com/efactor/efactor/examples/kvtransfer").CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Setenv("EFACTOR_DEVICE", "efa")
	return prog
}

// TestKVTransferOnCards: examples/kvtransfer, unmodified, with both processes on emulated cards.
func TestKVTransferOnCards(t *testing.T) {
	prog := kvtransfer(t)
	status, text, log := efaemu(t, "run", "-v", "-strict", fabric(t), "--", prog, "-rounds", "2", "-pages", "2")
	require.Zero(t, status, "%s%s", text, log)
	require.Contains(t, text, "128 pages, all as they were written", log)
	require.Regexp(t, `[0-9]{2,} packets sent`, log, "by the card")
}

// killsPrefill starts both processes, kills the one that writes in the middle of a round, and
// prints what ends the other.
const killsPrefill = `
EFACTOR_RANK=1 EFACTOR_LOCAL_RANK=1 "$0" "$@" >/dev/null 2>&1 &
EFACTOR_RANK=0 EFACTOR_LOCAL_RANK=0 "$0" "$@" 2>&1 >/dev/null | {
	while read -r line; do
		case $line in
		*"layer 16 of 32"*) [ "$killed" ] || { kill -9 $!; killed=1; };;
		esac
		case $line in
		kvtransfer:*) [ "$last" ] || last=$line;;
		esac
	done
	echo "killed=$killed $last"
}`

// TestKVTransferKilled: the prefill process is killed, and the decode process ends with an error
// that says what it has waited for.
func TestKVTransferKilled(t *testing.T) {
	testenv.Long(t, "it is killed in real seconds")
	prog := kvtransfer(t)
	t.Setenv("EFACTOR_SIZE", "2")
	t.Setenv("EFACTOR_LOCAL_SIZE", "2")
	t.Setenv("EFACTOR_LAUNCHER", "env")
	t.Setenv("EFACTOR_RENDEZVOUS", fmt.Sprintf("127.0.0.1:%d", freeport.Get(t)))
	began := clock.Wall()
	_, text, log := efaemu(t, "run", fabric(t), "--", "sh", "-c", killsPrefill, prog, "-rounds", "1000000", "-pages", "2")
	require.Regexp(t, `^killed=1 kvtransfer: round \d+(, layer \d+: efa: wait: \d of 2 writes with values \d+ to \d+ have arrived: wait|: efa: send), peer 1( \(rank 1 on [^)]+\))?: `, text, log)
	require.Less(t, clock.Wall().Sub(began), time.Minute)
}
