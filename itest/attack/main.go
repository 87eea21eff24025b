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
// Behind the flags commands may be named, each with its own part in this:
//
//	go run ./attack -for 30s -seed 7 floods slow
//
//	processes    what is above, and what is done if none is named
//	soak         the same without foes, on tcp with resets, too (as root); what steady processes
//	             hold must not grow, if the time is long enough to say so (half a minute)
//	resets       connections between honest endpoints are reset in the middle of messages up to
//	             8 MiB, in a network namespace (as root): all sends end, none is lost that ended
//	             well, and in the end each reaches each other one
//	aliases      foes of api/efanet and api/remote state addresses that are another's on one path
//	             and their own on the other
//	floods       one peer of efanet sends OPEN, PING or RESET without end, one of remote HELLO of
//	             names that do not exist or do not answer, messages of unknown codecs, or requests
//	             to spawn: others dial, ask and spawn within 2 s, and memory is bounded
//	restarts     a process with many endpoints is killed and starts again at its places while the
//	             server pauses: what it sent well has come
//	slow         peers that grant and never receive, never accept, never answer, read one byte a
//	             second: calls end by their deadlines, and Close at once
//	descriptors  a server has none left for a while: what fails ends, and afterwards all works
//
// What is not attacked is in docs/threat-model.md. Random choices follow the seed; the
// schedule of processes does not, so a seed repeats the attack, not every outcome.
//
// Start reading at conduct.go (the processes), then peer.go, stream.go and ledger.go (what
// legitimate ones do), foe_tcp.go, foe_shm.go, foe_launch.go; for the commands at trial.go, service.go
// (legitimate processes above the device) and foe_net.go (what foes say there).
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
	"slices"
	"strings"
	"time"
)

var errUsage = errors.New("attack: bad argument")

func main() {
	if process() {
		return
	}
	devices := flag.String("device", "", "what to attack, one after the other; \"\": all that it is for")
	d := flag.Duration("for", 10*time.Second, "how long each")
	seed := flag.Uint64("seed", 1, "of all choices")
	calm := flag.Bool("calm", false, "without foes, to compare")
	long := flag.Bool("long", true, "some pauses are longer than PeerTimeout")
	only := flag.String("only", "", "the attacks of foes, by name as the table has them; \"\": all")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	progress := io.Discard
	if st, err := os.Stderr.Stat(); err == nil && st.Mode()&os.ModeCharDevice != 0 {
		progress = os.Stderr
	}
	names := flag.Args()
	if len(names) == 0 {
		names = []string{processes}
	}
	var rows []row
	failures := 0
	for _, name := range names {
		list, err := plans(name, *devices)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		for _, pl := range list {
			pl.d, pl.seed, pl.calm, pl.only, pl.long, pl.bounds = *d, *seed, *calm || pl.calm, *only, *long, promised
			rows = append(rows, conduct(ctx, pl, progress))
			failures += rows[len(rows)-1].failures()
		}
	}
	show(os.Stdout, rows)
	if failures > 0 {
		fmt.Printf("seed %d\n", *seed)
		os.Exit(1)
	}
}

// What is done beside commands.
const (
	processes = "processes" // that are killed and stopped, among foes
	soak      = "soak"      // the same without foes, and with an eye on what they hold
)

// plans are what a name of the command line asks for, on the given devices.
func plans(name, devices string) (list []plan, err error) {
	pl, on := plan{}, ""
	c := commandOf(name)
	switch {
	case name == processes:
		on = "shm,tcp,tls,auto,launch"
	case name == soak:
		pl.calm, pl.flat, on = true, true, "shm,tcp,"+tcpResets+",auto"
	case c != nil:
		pl.command, on = name, c.devices
	default:
		return nil, fmt.Errorf("%w: %q", errUsage, name)
	}
	if devices == "" {
		devices = on
	}
	for pl.device = range strings.SplitSeq(devices, ",") {
		if !slices.Contains(strings.Split(on, ","), pl.device) {
			return nil, fmt.Errorf("%w: %s on device %q", errUsage, name, pl.device)
		}
		list = append(list, pl)
	}
	return list, nil
}
