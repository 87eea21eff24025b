package efa

import (
	"cmp"
	"errors"
	"log/slog"

	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
)

// chooser opens what "auto" stands for, and writes down why.
type chooser struct {
	log     *slog.Logger
	sys     string // where the kernel lists its devices; "": /sys
	shm     func() (Device, error)
	tcp     func() (Device, error)
	private bool // tcp does not leave this host

	devs    []Device
	choices []DeviceChoice
}

func newChooser(cfg *Config, log *slog.Logger) *chooser {
	t := &cfg.TCP
	return &chooser{
		log:     log,
		shm:     func() (Device, error) { return shm.Open(shm.Config{Logger: log}) },
		tcp:     func() (Device, error) { return openTCP(t, log) },
		private: t.private(),
	}
}

// open opens EFA, shm and tcp, as far as they are there. There is no endpoint for all
// peers without tcp, so that one must be.
func (c *chooser) open() (Device, []DeviceChoice, error) {
	c.efa()
	if d, err := c.shm(); err != nil {
		c.not("shm", err.Error())
		c.log.Warn("efa: auto: no shared memory, tcp carries to peers on this host too", "err", err)
	} else {
		c.use(d, "for peers of this user on this host")
	}
	d, err := c.tcp()
	if err != nil {
		return nil, nil, errors.Join(err, c.undo())
	}
	why := "for all other peers"
	if c.private {
		why += ", on this host alone: without credentials and without an address there are no others"
	}
	c.use(d, why)
	if len(c.devs) == 1 {
		return d, c.choices, nil
	}
	all, err := JoinDevices(c.devs...)
	if err != nil {
		return nil, nil, errors.Join(err, c.undo())
	}
	return all, c.choices, nil
}

func (c *chooser) use(d Device, why string) {
	name := d.Info().Name
	c.devs = append(c.devs, d)
	c.choices = append(c.choices, DeviceChoice{name, true, why})
	c.log.Info("efa: auto: opened", "device", name, "why", why)
}

func (c *chooser) not(name, why string) {
	c.choices = append(c.choices, DeviceChoice{name, false, why})
	c.log.Info("efa: auto: not used", "device", name, "why", why)
}

func (c *chooser) undo() error {
	var errs []error
	for _, d := range c.devs {
		errs = append(errs, d.Close())
	}
	return errors.Join(errs...)
}

// efa looks for EFA devices.
func (c *chooser) efa() {
	d := discovery{host: sysfs.Host{Root: c.sys}, query: queryEFA}
	d.nics()
	for _, i := range d.list {
		why := cmp.Or(i.Err, errNoDriver)
		c.not(i.Name, why.Error())
		c.log.Warn("efa: auto: this host has an EFA device that is not used", "device", i.Name, "why", why)
	}
	if len(d.list) == 0 {
		c.not("efa", "there is no EFA device in "+d.host.Where())
	}
}
