package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/examples/pingpong/ctrl"
	"github.com/efactor/efactor/examples/pingpong/pp"
	"github.com/efactor/efactor/examples/pingpong/second"
)

// options are the command line.
type options struct {
	pp.Config
	network      ctrl.Network
	server       bool
	host         string
	port, source int
	json         bool

	set []string // the flags that a second process needs as well
}

// parse reads the command line; flag.ErrHelp means that it asks for help.
func parse(args []string) (*options, error) {
	o := &options{network: ctrl.AnyIP}
	fs := flag.NewFlagSet("pingpong", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.IntVar(&o.Iterations, "I", 10, "")
	size := fs.String("S", "", "")
	fs.BoolVar(&o.Check, "c", false, "")
	mode := fs.String("m", "msg", "")
	fabric := fs.String("f", "efa", "")
	endpoint := fs.String("e", "rdm", "")
	fs.IntVar(&o.port, "P", ctrl.DefaultPort, "")
	fs.IntVar(&o.source, "B", 0, "")
	v6 := fs.Bool("6", false, "")
	fs.StringVar(&o.Device, "device", "shm", "")
	progress := fs.String("progress", "auto", "")
	fs.BoolVar(&o.Tagged, "tagged", false, "")
	fs.IntVar(&o.Warmup, "warmup", 0, "")
	fs.BoolVar(&o.server, "server", false, "")
	fs.BoolVar(&o.json, "json", false, "")
	fs.StringVar(&o.Capture, "capture", "", "")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) {
		given[f.Name] = true
		if f.Name != "json" && f.Name != "capture" {
			o.set = append(o.set, "-"+f.Name+"="+f.Value.String())
		}
	})
	if fs.NArg() > 1 {
		return nil, fmt.Errorf("one host at most, and flags before it: %q", fs.Args())
	}
	o.host = fs.Arg(0)
	if o.alone() || second.Is() { // both processes are ours, and choose the same
		if !given["S"] && !given["c"] {
			*size, o.Check = "all", true
		}
		switch {
		case given["warmup"]:
		case given["I"]:
			o.Warmup = min(max(o.Iterations/10, 10), 1000)
		default:
			o.Iterations = 0 // as many as suit a size
		}
	}
	if o.host != "" {
		o.CPUs = pp.OtherCPU()
	}
	if *v6 {
		o.network = ctrl.IPv6
	}
	switch *mode {
	case "msg":
	case "tagged":
		o.Tagged = true
	default:
		return nil, fmt.Errorf("-m %s: want msg or tagged", *mode)
	}
	if o.Direct = *fabric == "efa-direct"; !o.Direct && *fabric != "efa" {
		return nil, fmt.Errorf("-f %s: want efa or efa-direct", *fabric)
	}
	switch *endpoint {
	case "rdm":
	case "dgram":
		o.Direct, o.Datagram = true, true
	default:
		return nil, fmt.Errorf("-e %s: want rdm or dgram", *endpoint)
	}
	var errs []error
	var err error
	if o.Sizes, err = pp.Sizes(*size); err != nil {
		errs = append(errs, fmt.Errorf("-S: %w", err))
	}
	if o.Progress, err = efa.ParseProgress(*progress); err != nil {
		errs = append(errs, fmt.Errorf("-progress %s: want auto, manual or pinned", *progress))
	}
	return o, errors.Join(append(errs, o.check(given))...)
}

// alone reports whether both processes are ours.
func (o *options) alone() bool { return o.host == "" && !o.server }

func (o *options) check(given map[string]bool) error {
	const most = 1<<31 - 1
	switch {
	case given["I"] && o.Iterations < 1 || o.Iterations > most:
		return fmt.Errorf("-I %d: want 1 to %d", o.Iterations, most)
	case o.Warmup < 0 || o.Warmup > most:
		return fmt.Errorf("-warmup %d: want 0 to %d", o.Warmup, most)
	case o.Direct && o.Tagged:
		return errors.New("-f efa-direct and -e dgram have no tagged messages")
	case o.server && o.host != "":
		return fmt.Errorf("-server waits for a client and takes no host (%s)", o.host)
	case o.alone() && (given["B"] || given["P"] || given["6"]):
		return errors.New("-B, -P and -6 are for -server and for a host to connect to")
	case o.server && given["P"]:
		return errors.New("-P is for the client; a server listens on the port that -B gives")
	case o.port < 1 || o.port > 65535:
		return fmt.Errorf("-P %d: want 1 to 65535", o.port)
	case o.source < 0 || o.source > 65535:
		return fmt.Errorf("-B %d: want 0 to 65535", o.source)
	}
	return nil
}
