package efa

import (
	"log/slog"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/uverbs/sysfs"
	"github.com/efactor/efactor/internal/errtext"
)

// chooser opens what "auto" stands for, and writes down why.
type chooser struct {
	log     *slog.Logger
	sys     string // where the kernel lists its devices; "": /sys
	shm     func() (Device, error)
	tcp     func() (Device, error)
	private bool // tcp does not leave this host

	memlock func(need uint64) error
	card    func(*NIC) (Device, error)
	nic     Device // of EFA; nil: there is none

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
		memlock: sysfs.Host{}.Memlock,
		card:    func(n *NIC) (Device, error) { return openNIC(n, log) },
	}
}

// open opens shm, EFA and tcp, as far as they are there. There is no endpoint for all
// peers without tcp, so that one must be.
func (c *chooser) open() (Device, []DeviceChoice, error) {
	c.efa()
	if d, err := c.shm(); err != nil {
		c.not("shm", err.Error())
		c.log.Warn("efa: auto: no shared memory, tcp carries to peers on this host too", "err", err)
	} else {
		c.use(d, "for peers of this user on this host")
	}
	c.useNIC()
	d, err := c.tcp()
	if err != nil {
		return nil, nil, errtext.Join(err, c.undo())
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
		return nil, nil, errtext.Join(err, c.undo())
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
	return errtext.Join(errs...)
}

// efa looks for EFA devices and opens the best that can be.
func (c *chooser) efa() {
	d := discovery{host: sysfs.Host{Root: c.sys}, query: c.ask, memory: autoMemory, memlock: c.memlock}
	d.nics()
	for _, i := range d.list {
		err := i.Err
		if err == nil && c.nic != nil {
			c.not(i.Name, "one EFA device is enough")
			continue
		}
		if err == nil {
			c.nic, err = c.card(i.NIC)
		}
		if err != nil {
			c.not(i.Name, err.Error())
			c.log.Warn("efa: auto: this host has an EFA device that is not used", "device", i.Name, "why", err)
		}
	}
	if len(d.list) == 0 {
		c.not("efa", "there is no EFA device in "+d.host.Where())
	}
}

// ask is the chooser's sysfs.Query.
func (c *chooser) ask(n *NIC) (device.Info, error) {
	d, err := c.card(n)
	if err != nil {
		return device.Info{}, err
	}
	return d.Info(), d.Close()
}

// useNIC joins the EFA device. An emulated one has the GID of the shared memory that carries
// its packets: then that is the shorter way to the same peers.
func (c *chooser) useNIC() {
	d := c.nic
	if d == nil {
		return
	}
	for _, x := range c.devs {
		if x.Info().GID == d.Info().GID {
			why := "it has one GID with " + x.Info().Name
			if err := d.Close(); err != nil {
				why += ", and could not be closed: " + err.Error()
			}
			c.not(d.Info().Name, why)
			return
		}
	}
	c.use(d, "for peers that have EFA")
}
