package efatest

import (
	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/api/efa"
)

// The fabric of a world: its behaviour and its faults.
type (
	// Fabric connects the devices that were opened on it. [Fabric.AddRule] adds a
	// fault, a device's Kill makes it vanish.
	Fabric = sim.Fabric
	// FabricConfig configures delays, order, MTU, faults, and a hook that sees
	// everything.
	FabricConfig = sim.Config
	// DeviceConfig has a device's properties and abilities. The zero value works.
	DeviceConfig = sim.DeviceConfig
	// Place is a queue pair's place on the fabric.
	Place = sim.Endpoint
	// Rule describes a fault and when it strikes.
	Rule = sim.Rule
	// Fault is what goes wrong.
	Fault = sim.Fault
	// Event is the argument of [FabricConfig].Hook.
	Event = sim.Event
	// Status is how a device ends a request; any code of EFA's devices is valid.
	Status = device.Status
	// WR is a kind of request, for Rule.WRs.
	WR = device.WR
)

// The kinds of request.
const (
	WRSend  = device.WRSend
	WRRead  = device.WRRead
	WRWrite = device.WRWrite
)

// Codes of errors of the peer, for FaultStatus.
const (
	StatusAbort        = device.StatusAbort        // the peer's queue pair was reset
	StatusUnresponsive = device.StatusUnresponsive // it does not answer
	StatusUnreachable  = device.StatusUnreachable  // there is no way to it
)

// The faults.
const (
	// FaultQueueFull refuses a post though there is room in the send queue.
	FaultQueueFull = sim.FaultQueueFull
	// FaultRefuseQP refuses to open a queue pair, for lack of memory.
	FaultRefuseQP = sim.FaultRefuseQP
	// FaultRefuseMR refuses to register memory.
	FaultRefuseMR = sim.FaultRefuseMR
	// FaultRNR refuses a packet as if its receiver were not ready.
	FaultRNR = sim.FaultRNR
	// FaultUnknownAH delivers a packet as if its receiver did not know the sender.
	FaultUnknownAH = sim.FaultUnknownAH
	// FaultStatus ends a request with Rule.Status, without any effect.
	FaultStatus = sim.FaultStatus
	// FaultDelay keeps a request up to Rule.Delay longer.
	FaultDelay = sim.FaultDelay
	// FaultLateStatus carries a request out and reports that up to Rule.Delay later.
	FaultLateStatus = sim.FaultLateStatus
)

// NewFabric makes a fabric outside of a world, in real time unless cfg.Virtual. Its
// devices are for the endpoints of one process ([efa.Config].Device).
func NewFabric(cfg FabricConfig) (*Fabric, error) { return sim.New(cfg) }

// Knobs are settings of the protocol that only tests make.
type Knobs = settings.Knobs

// KnobsOf returns those of a configuration, to be read and set:
//
//	efatest.KnobsOf(&cfg.Protocol).FirstMsgID = 1<<32 - 100
func KnobsOf(p *efa.ProtocolConfig) *Knobs { return settings.KnobsOf(p) }
