// Attack puts efactor among processes that misbehave, for a given time:
//
//	go run ./attack -device shm,tcp,tls,auto,launch -for 30s -seed 7
//
// On each device steady processes exchange messages and write, read and count in each other's
// memory; everything is numbered and has a checksum. Others do the same, but are killed,
// stopped (within PeerTimeout and beyond) and started again at the same address, as the seed
// decides. At the same time foes do what no peer would:
//
//	tcp, tls, auto  connections that say nothing, half a preamble, garbage, HTTP or TLS;
//	                preambles of others' addresses; after a right preamble impossible frames, wrong
//	                keys, packets of garbage and of ever new connids at one place; as root, another user's
//	shm, auto       garbage packets, cells of impossible lengths, slots and laps, claims without
//	                a packet; files and directories with the names of segments and regions, locked
//	                or not; one process is a victim, whose whole segment is overwritten at random,
//	                and cut where the kernel lets them
//	launch          silent connections to the rendezvous, garbage, HELLO of other versions, jobs
//	                and sizes, TLS
//
// What must hold, or the exit status is 1:
//
//   - No operation among steady processes fails or takes longer than 2 s, nor does a new
//     endpoint's first message: without the time in which these processes were not run, and
//     errors after the machine has not run one of them for a third of PeerTimeout (the table
//     has both).
//   - Operations with processes that are killed, stopped or a victim end in time, well or not.
//   - A message whose send ended well was received, once and in order, by a peer that lives.
//   - Survivors have no goroutine or descriptor left after Close, and the directory of shm no
//     file.
//
// What is not attacked is in docs/threat-model.md. Random choices follow the seed; the
// schedule of processes does not, so a seed repeats the attack, not every outcome.
//
// Start reading at conduct.go (the processes), then peer.go, stream.go and ledger.go (what
// legitimate ones do), foe_tcp.go, foe_shm.go, foe_launch.go.
//
// It is in the module of tests because nothing else should have it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"
)

var errUsage = errors.New("attack: bad argument")

func main() {
	if process() {
		return
	}
	devices := flag.String("device", "shm,tcp,tls,auto,launch", "what to attack, one after the other")
	d := flag.Duration("for", 10*time.Second, "how long each")
	seed := flag.Uint64("seed", 1, "of all choices")
	calm := flag.Bool("calm", false, "without foes, to compare")
	long := flag.Bool("long", true, "some pauses are longer than PeerTimeout")
	only := flag.String("only", "", "the attacks of foes of tcp and shm, by name as the table has them; \"\": all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	progress := io.Discard
	if st, err := os.Stderr.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
		progress = os.Stderr
	}
	rows := make([]row, 0, 5)
	failures := 0
	for device := range strings.SplitSeq(*devices, ",") {
		if !strings.Contains(" shm tcp tls auto launch ", " "+device+" ") {
			fmt.Fprintln(os.Stderr, fmt.Errorf("%w: device %q", errUsage, device))
			os.Exit(2)
		}
		rows = append(rows, conduct(ctx, plan{device, *d, *seed, *calm, *only, *long, promised, nil}, progress))
		failures += rows[len(rows)-1].failures()
	}
	show(os.Stdout, rows)
	if failures > 0 {
		fmt.Printf("seed %d\n", *seed)
		os.Exit(1)
	}
}
