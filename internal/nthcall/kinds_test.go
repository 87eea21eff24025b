//go:build linux && (amd64 || arm64)

package nthcall

import (
	"errors"
	"net/netip"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/shm"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/device/tcp"
	"github.com/efactor/efactor/api/efa"
)

// kind is a device on which rounds run.
type kind struct {
	name string
	// config makes a fabric open its device by itself. nil: it cannot.
	config func(dir string) efa.Config
	// pair opens the devices of both endpoints.
	pair func(dir string) (a, b device.Device, err error)
}

var (
	secret   = []byte("nthcall: no secret of anybody's.")
	loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})
)

// silence is for how long a connection may be silent.
const silence = 500 * time.Millisecond

var kinds = []kind{
	{
		name:   "shm",
		config: func(dir string) efa.Config { return efa.Config{DeviceName: "shm:" + dir} },
		pair:   each(openSHM),
	},
	{
		name: "tcp",
		config: func(string) efa.Config {
			return efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Timeout: silence}}
		},
		pair: each(openTCP),
	},
	{
		name: "tcp with TLS",
		config: func(string) efa.Config {
			return efa.Config{DeviceName: "tcp", TCP: efa.TCPConfig{Addr: loopback, Secret: secret, Timeout: silence}}
		},
		pair: each(openTLS),
	},
	{name: "shm and tcp", pair: each(openBoth)},
	{name: "sim", pair: openSim},
}

// each opens two of a kind.
func each(open func(dir string) (device.Device, error)) func(dir string) (a, b device.Device, err error) {
	return func(dir string) (a, b device.Device, err error) {
		if a, err = open(dir); err != nil {
			return nil, nil, err
		}
		if b, err = open(dir); err != nil {
			return nil, nil, errors.Join(err, a.Close())
		}
		return a, b, nil
	}
}

func openSHM(dir string) (device.Device, error) { return shm.Open(shm.Config{Dir: dir}) }

func openTCP(string) (device.Device, error) { return tcp.Open(tcp.Config{Timeout: silence}) }

func openTLS(string) (device.Device, error) {
	c, err := tcp.JobSecret(secret)
	if err != nil {
		return nil, err
	}
	return tcp.Open(tcp.Config{Addr: loopback, Credentials: c, Timeout: silence})
}

func openBoth(dir string) (device.Device, error) {
	near, err := openSHM(dir)
	if err != nil {
		return nil, err
	}
	far, err := openTCP(dir)
	if err != nil {
		return nil, errors.Join(err, near.Close())
	}
	return efa.JoinDevices(near, far)
}

func openSim(string) (a, b device.Device, err error) {
	f, err := sim.New(sim.Config{Seed: 1})
	if err != nil {
		return nil, nil, err
	}
	return each(func(string) (device.Device, error) {
		return f.OpenDevice(sim.DeviceConfig{RDMARead: true, RDMAWrite: true, LocalKeys: true})
	})("")
}
