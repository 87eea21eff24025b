// Efacheck tries everything that efactor uses of an EFA card, on one instance, with one card:
// two queue pairs and two endpoints of this process talk to each other through it. It takes
// some seconds, writes nothing anywhere, and prints a report of which the last lines say
// where the card differs from the emulated one that efactor was tested with.
//
//	go run ./examples/efacheck                    the best card of this host
//	go run ./examples/efacheck -device rdmap0s6   a certain one
//
// The exit status is 0 if nothing failed, 1 if something did or there is no card.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"

	"github.com/efactor/efactor/examples/efacheck/check"
)

func main() {
	c := check.Config{Out: os.Stdout}
	flag.StringVar(&c.Device, "device", "", "name of the card, as examples/devices lists it; without it the best")
	flag.BoolVar(&c.Answers, "answers", false, "print the answers alone, in the form of check/emulator.txt")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	failed, err := check.Run(ctx, c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "efacheck:", err)
	}
	if failed > 0 || err != nil {
		stop()
		os.Exit(1)
	}
}
