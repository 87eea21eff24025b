package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"

	"github.com/efactor/efactor/interop/efaemu/faults"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

const usage = `Usage:
  efaemu run [flags] -- program [arguments]
                     run a program, and all that it starts, with an EFA device
  efaemu profiles    the devices that can be emulated
  efaemu check       does this kernel have what it takes?

Flags of run:
  -fabric dir        directory in shared memory; programs with the same one reach each
                     other (the shm device's own default)
  -host name         be another host of that fabric, with a GID of its own
  -mtu n             largest packet in bytes; the same for all on a fabric (8760)
  -profile name      device and kernel that are emulated (efa)
  -rdma-read=bool    RDMA read, whatever the profile says; false: RDMA write goes, too
  -rdma-write=bool   RDMA write, in the same way; after -rdma-read=false it makes a card
                     that does not exist, on which libfabric 2.x may abort
  -shuffle n         hold up to n work requests of a queue pair back, and let them pass in
                     an order that the seed chooses
  -seed n            seed of -shuffle (1)
  -fault list        have the device do wrong, such as length@5,memlock=8000000;
                     -fault help lists what
  -strict            report what a real kernel or device might not forgive; exit status 3
                     if there was anything and the program succeeded
  -pcap file         write the packets to a pcapng file
  -trace file        write the calls, mappings, doorbells and descriptors of the programs
  -v                 say what the program asks of the device, and count at the end

The environment of libfabric is yours. You will want
  FI_EFA_ENABLE_SHM_TRANSFER=0  or programs of one host leave the device alone
  FI_EFA_USE_DEVICE_RDMA=1      for libfabric 1.17 to use RDMA read

The exit status is the program's, 128 and the signal's number if one has killed it; 125
if the emulator failed, 126 and 127 if the program could not be run. SIGTERM and its kin
are passed on to the program; the third one kills it.
`

// options are the command line of run.
type options struct {
	fabric, host string
	mtu          int
	profile      profile.Profile
	shuffle      int
	seed         uint64
	strict       bool
	faults       *faults.Plan
	pcap, trace  string
	verbose      bool
	program      []string
}

// parse reads the command line; flag.ErrHelp means that it asks for help.
func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("run", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.fabric, "fabric", "", "")
	fs.StringVar(&o.host, "host", "", "")
	fs.IntVar(&o.mtu, "mtu", 0, "")
	name := fs.String("profile", profile.List()[0], "")
	var changes []func(*profile.Profile)
	fs.BoolFunc("rdma-read", "", change(&changes, func(p *profile.Profile, on bool) {
		p.RDMARead = on
		if !on { // no card writes and does not read
			p.RDMAWrite, p.UnsolicitedWrite = false, false
		}
	}))
	fs.BoolFunc("rdma-write", "", change(&changes, func(p *profile.Profile, on bool) {
		p.RDMAWrite = on
		if on {
			p.Kernel = profile.Newest // older ones don't report it
		} else {
			p.UnsolicitedWrite = false
		}
	}))
	fs.IntVar(&o.shuffle, "shuffle", 0, "")
	fs.Uint64Var(&o.seed, "seed", 1, "")
	fs.BoolVar(&o.strict, "strict", false, "")
	fs.Func("fault", "", func(list string) (err error) {
		if list == "help" {
			return fmt.Errorf("it takes a list.\n%s", faults.Usage)
		}
		o.faults, err = faults.Parse(list)
		return err
	})
	fs.StringVar(&o.pcap, "pcap", "", "")
	fs.StringVar(&o.trace, "trace", "", "")
	fs.BoolVar(&o.verbose, "v", false, "")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	p, err := profile.Named(*name)
	if err != nil {
		return nil, fmt.Errorf("-profile: %w", err)
	}
	for _, c := range changes {
		c(&p)
	}
	if (p.RDMARead || p.RDMAWrite) && p.MaxRDMA == 0 {
		p.MaxRDMA = profile.Default().MaxRDMA
	}
	o.profile, o.program = p, fs.Args()
	switch {
	case len(o.program) == 0:
		return nil, errors.New("which program? efaemu run [flags] -- program [arguments]")
	case o.shuffle < 0:
		return nil, fmt.Errorf("-shuffle %d: want 0 or more", o.shuffle)
	}
	return o, p.Validate()
}

// change is a boolean flag that changes the profile once that is known.
func change(list *[]func(*profile.Profile), set func(*profile.Profile, bool)) func(string) error {
	return func(s string) error {
		on, err := strconv.ParseBool(s)
		if err != nil {
			return err
		}
		*list = append(*list, func(p *profile.Profile) { set(p, on) })
		return nil
	}
}
