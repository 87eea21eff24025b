// Efaemu gives unmodified programs an emulated EFA device.
//
//	go run ./interop/efaemu run -- fi_info -p efa
//	go run ./interop/efaemu run -- fi_pingpong -p efa -e rdm
//
// The device's fabric is shared memory, so that such programs reach each other and
// endpoints of efactor on the shm device. docs/efa-emulator.md describes the rest.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/efactor/efactor/interop/efaemu/profile"
)

// Exit statuses of the emulator's own. Those of programs that could not be run are
// a shell's, from package trap.
const (
	statusUsage    = 2
	statusFindings = 3
	statusBroken   = 125
)

func main() {
	play()
	os.Exit(command(os.Args[1:]))
}

func command(args []string) int {
	what := ""
	if len(args) > 0 {
		what, args = args[0], args[1:]
	}
	switch what {
	case "run":
		o, err := parse(args)
		switch {
		case errors.Is(err, flag.ErrHelp):
			fmt.Print(usage)
			return 0
		case err != nil:
			return fail(statusUsage, fmt.Errorf("%w (-h lists the flags)", err))
		}
		status, err := o.emulate()
		if err != nil {
			return fail(status, err)
		}
		return status
	case "profiles":
		for _, name := range profile.List() {
			fmt.Printf("%-12s %s\n", name, profile.Describe(name))
		}
		return 0
	case "check":
		return check()
	case "-h", "-help", "--help", "help":
		fmt.Print(usage)
		return 0
	}
	fmt.Fprint(os.Stderr, usage)
	return statusUsage
}

// fail prints the error and returns the exit status.
func fail(status int, err error) int {
	fmt.Fprintf(os.Stderr, "efaemu: %v\n", err)
	return status
}
