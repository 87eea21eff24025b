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
		rows = append(rows, conduct(ctx, plan{device, *d, *seed, *calm, *only, *long}, progress))
		failures += rows[len(rows)-1].failures()
	}
	print(os.Stdout, rows)
	if failures > 0 {
		fmt.Printf("seed %d\n", *seed)
		os.Exit(1)
	}
}
