package efa

import (
	"fmt"
	"log/slog"
	"strings"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
	"github.com/efactor/efactor/internal/errtext"
)

// openEFA opens the EFA device of a name, or if name is "" the best that can be opened.
func openEFA(name string, log *slog.Logger) (Device, error) {
	host := sysfs.Host{}
	found, err := host.List()
	if err != nil {
		return nil, err
	}
	var errs []error
	for i := range found.NICs {
		n := &found.NICs[i]
		if name != "" && name != n.Name {
			continue
		}
		if err = host.Try(n); err == nil {
			err = host.Memlock(endpointMemory)
		}
		if err == nil {
			var d Device
			if d, err = openNIC(n, log); err == nil {
				return d, nil
			}
		}
		errs = append(errs, err)
	}
	for _, s := range found.Skipped {
		if name == "" || name == s.Name {
			errs = append(errs, s.Why)
		}
	}
	switch {
	case len(errs) > 0:
		return nil, errtext.Join(errs...)
	case len(found.NICs) > 0:
		return nil, fmt.Errorf("%w: there is no EFA device %q on this host; the first is %q", ErrInvalid, name, found.NICs[0].Name)
	}
	return nil, found.Err()
}

// openCards opens the EFA devices of names that are joined by "+", or the best.
func openCards(names string, log *slog.Logger) (Device, []DeviceChoice, error) {
	var devs []Device
	var choices []DeviceChoice
	undo := func(err error) error {
		for _, d := range devs {
			err = errtext.Join(err, d.Close())
		}
		return err
	}
	for name := range strings.SplitSeq(names, "+") {
		if name == "" && names != "" {
			return nil, nil, undo(fmt.Errorf("%w: device %q: a card without a name", ErrInvalid, "efa:"+names))
		}
		d, err := openEFA(name, log)
		if err != nil {
			return nil, nil, undo(err)
		}
		devs, choices = append(devs, d), append(choices, asked(d))
		if err := alike(devs[0].Info(), d.Info()); err != nil {
			return nil, nil, undo(err)
		}
	}
	if len(devs) == 1 {
		return devs[0], choices, nil
	}
	all, err := JoinDevices(devs...)
	if err != nil {
		return nil, nil, undo(err)
	}
	return all, choices, nil
}

// alike refuses cards of which one could not do what peers expect of the other: they learn
// the abilities of the first.
func alike(a, b device.Info) error {
	if a.PartID != b.PartID || a.RDMARead != b.RDMARead || a.RDMAWrite != b.RDMAWrite {
		return fmt.Errorf("%w: %s and %s are not of one model, and cannot be joined", ErrInvalid, a.Name, b.Name)
	}
	return nil
}

// openNIC opens an EFA device.
func openNIC(n *NIC, log *slog.Logger) (Device, error) {
	d, err := uverbs.Open(uverbs.Config{Path: n.Uverbs, Name: n.Name, Logger: log})
	if err != nil {
		return nil, n.Explain(err)
	}
	return d, nil
}

// queryEFA asks an EFA device for its limits.
func queryEFA(n *NIC) (device.Info, error) {
	d, err := openNIC(n, defaultLog())
	if err != nil {
		return device.Info{}, err
	}
	return d.Info(), d.Close()
}
