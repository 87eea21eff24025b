//go:build linux

package libfabric_test

import (
	"fmt"
	"slices"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/emulator"
)

// environment is a device, libfabric's settings, and ours to match.
type environment struct {
	name     string
	rdma     bool // the device has RDMA read
	write    bool // and RDMA write
	shuffle  int
	seed     uint64
	env      []string // libfabric's
	protocol efa.ProtocolConfig

	medium   int // bytes up to which messages go medium
	longRead int // from here on messages and writes are read, 0: never
	runt     bool

	device    string // profile of the emulator, "" for its own default
	reference bool   // libfabric on both sides
	direct    bool   // without the protocol on both sides
	card      bool   // efactor has a device of the same kind, in this process, in place of shared memory
	only      string // nothing but the scenarios that name it
	since     release
}

// common is libfabric's environment everywhere: traffic must not go by its own
// shared memory, since both sides are on one host, and a libfabric that crashes must
// not leave files where it was started.
var common = []string{
	"FI_EFA_ENABLE_SHM_TRANSFER=0", "FI_LOG_LEVEL=warn", "IPATH_NO_BACKTRACE=1", "HFI_NO_BACKTRACE=1",
}

// settings are the environments, each with packets in order.
var settings = []environment{
	{
		name: "no RDMA", medium: 65536,
		env:      []string{"FI_EFA_USE_DEVICE_RDMA=0"},
		protocol: efa.ProtocolConfig{Credits: 3},
	},
	{
		name: "RDMA read", rdma: true, medium: 65536, longRead: 100000,
		env: []string{
			"FI_EFA_USE_DEVICE_RDMA=1", "FI_EFA_INTER_MIN_READ_MESSAGE_SIZE=100000",
			"FI_EFA_INTER_MIN_READ_WRITE_SIZE=100000", "FI_EFA_RUNT_SIZE=0", "FI_EFA_TX_MIN_CREDITS=4",
		},
		protocol: efa.ProtocolConfig{MinRead: 100000, MinReadWrite: 100000},
	},
	{
		name: "RDMA read, runt", rdma: true, longRead: 100000, runt: true,
		env: []string{
			"FI_EFA_USE_DEVICE_RDMA=1", "FI_EFA_INTER_MIN_READ_MESSAGE_SIZE=100000",
			"FI_EFA_INTER_MIN_READ_WRITE_SIZE=100000", "FI_EFA_RUNT_SIZE=20000",
			"FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE=0",
		},
		protocol: efa.ProtocolConfig{MinRead: 100000, MinReadWrite: 100000, RuntSize: 20000, MaxMedium: -1},
	},
}

// solicitedAlone has libfabric's writes with data take receives.
const solicitedAlone = "FI_EFA_USE_UNSOLICITED_WRITE_RECV=0"

// writing is a card with RDMA write. It takes a receive for a write with data, as efactor's
// shared memory does, since both sides must do alike.
var writing = environment{
	name: "RDMA write", rdma: true, write: true, device: "rdma-write", medium: 65536, longRead: 100000,
	since: release{1, 18, 0},
	env: []string{
		"FI_EFA_USE_DEVICE_RDMA=1", "FI_EFA_INTER_MIN_READ_MESSAGE_SIZE=100000", solicitedAlone,
	},
	protocol: efa.ProtocolConfig{MinRead: 100000, MinReadWrite: 100000},
}

// Names of environments in which a few scenarios alone are played.
const (
	unsolicited = "unsolicited writes" // write with data takes no receive
	fewRegions  = "few regions"        // libfabric cannot register everything
	localKeys   = "local keys"         // efactor does not register plain memory, and cannot read into it
)

// particular are environments for what cannot be seen in the others.
func particular() []environment {
	free := writing
	free.name, free.only, free.card, free.since = unsolicited, unsolicited, true, release{1, 22, 0}
	free.env = slices.DeleteFunc(slices.Clone(writing.env), func(s string) bool { return s == solicitedAlone })
	all := []environment{free}
	for _, few := range []environment{settings[1], writing} {
		few.since = release{1, 20, 0}
		local := few
		few.name, few.only, few.device = few.name+", "+fewRegions, fewRegions, "small"
		local.name, local.only, local.card = local.name+", "+localKeys, localKeys, true
		local.protocol.MinRegister = -1
		all = append(all, few, local)
	}
	return all
}

// environments are all that there are for the release, in order and shuffled.
func environments() (all []environment) {
	for _, e := range slices.Concat(settings, []environment{writing}, particular()) {
		if !lf().before(e.since) {
			all = append(all, e, e.shuffled(7))
		}
	}
	return all
}

// shuffled is e with packets held back, in an order that the seed chooses.
func (e environment) shuffled(seed uint64) environment {
	e.shuffle, e.seed = 8, seed
	return e
}

// profile is the column of the matrix.
func (e environment) profile() string {
	name := "no RDMA"
	switch {
	case e.write:
		name = "RDMA write"
	case e.rdma:
		name = "RDMA read"
	}
	if e.shuffle > 0 {
		return name + ", shuffled"
	}
	return name + ", in order"
}

// title names the environment in tests.
func (e environment) title() string {
	if e.reference {
		e.reference = false
		return "libfabric alone, " + e.title()
	}
	name := e.name
	if e.card {
		name += ", efactor on EFA"
	}
	if e.shuffle > 0 {
		return fmt.Sprintf("%s, shuffled by %d", name, e.seed)
	}
	return name
}

// on is the device on the fabric of dir.
func (e environment) on(dir string) emulator.Device {
	// Cards from the third generation on read, and libfabric 2 does not accept one that
	// does not: it is libfabric that leaves it, then.
	reads := e.rdma || e.device == "rdma-write" || e.device == "strict"
	return emulator.Device{Fabric: dir, Profile: e.device, RDMARead: reads, RDMAWrite: e.write, Shuffle: e.shuffle, Seed: e.seed}
}
