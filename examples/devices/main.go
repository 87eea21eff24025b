// Devices lists the devices of this host that efactor can use, best first, and then those
// that it cannot, with the reason: what fi_info is to libfabric.
//
//	go run ./examples/devices                one line for each device
//	go run ./examples/devices -v             and all that is known of it
//	go run ./examples/devices -driver efa    EFA devices alone; exit status 1 if there is none
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/efactor/efactor/api/efa"
)

func main() {
	var h efa.Hints
	flag.StringVar(&h.Driver, "driver", "", "efa, shm, tcp or sim; without it all but sim")
	flag.StringVar(&h.Name, "name", "", "the device of this name")
	flag.BoolVar(&h.Usable, "usable", false, "leave out what cannot be used")
	flag.BoolVar(&h.Remote, "remote", false, "devices that leave this host")
	flag.BoolVar(&h.RDMARead, "rdma-read", false, "devices that read by themselves")
	flag.BoolVar(&h.RDMAWrite, "rdma-write", false, "devices that write by themselves")
	verbose := flag.Bool("v", false, "all that is known")
	flag.Parse()
	if err := list(os.Stdout, h, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "devices:", err)
		os.Exit(1)
	}
}

// list prints the devices that the hints want.
func list(w io.Writer, h efa.Hints, verbose bool) error {
	devices, err := efa.Devices(h)
	if err != nil {
		return err
	}
	for _, d := range devices {
		if _, err := fmt.Fprintln(w, d); err != nil {
			return err
		}
		if verbose {
			describe(w, &d)
		}
	}
	return nil
}

// describe prints what is known of a device.
func describe(w io.Writer, d *efa.DeviceInfo) {
	line := func(what string, v any) { fmt.Fprintf(w, "    %-14s %v\n", what, v) }
	for _, g := range d.GIDs {
		line("gid", g)
	}
	if n := d.NIC; n != nil {
		line("file", n.Uverbs)
		line("active", n.Active)
		if n.Firmware != "" {
			line("firmware", n.Firmware)
		}
		for _, s := range n.Odd {
			line("odd", s)
		}
	}
	if d.Err != nil {
		return
	}
	l := d.Limits
	line("leaves host", d.Remote)
	line("rdma read", l.RDMARead)
	line("rdma write", l.RDMAWrite)
	line("max rdma", l.MaxRDMA)
	line("max inject", l.MaxInject)
	line("send queue", l.MaxSQ)
	line("receive queue", l.MaxRQ)
	line("endpoints", l.MaxEndpoints)
}
