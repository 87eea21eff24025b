package profile

// Kernel is whose uverbs interface is emulated.
type Kernel uint8

// Kernels: structure sizes, capability bits and checks differ.
const (
	Linux61 Kernel = iota // 6.1: RDMA read at most
	Newest                // all that current headers have: RDMA write, unsolicited receives
)

// Profile is a device. Default has the values that are known to work with
// libfabric 1.17; names and units are the device's own (query commands).
type Profile struct {
	Name   string
	Kernel Kernel

	RDMARead, RDMAWrite bool
	UnsolicitedWrite    bool // RDMA write with immediate takes no receive
	RNRRetry            bool // settable
	Notify              bool // completion channels work
	SGID                bool // CQs show the GID of an unknown sender

	PartID                uint32 // 0xefa0 to 0xefa4
	MaxRDMA               uint32 // bytes
	MaxSQ, MaxRQ, MaxQPWR uint32
	MaxSGESQ, MaxSGERQ    uint16
	MaxQP, MaxCQ, MaxCQE  uint32
	MaxMR, MaxPD, MaxAH   uint32
	MaxLLQ                uint32 // bytes
	MaxTxBatch            uint16 // units of 64 bytes; 0: no limit
	MinSQ                 uint16
	SubCQs                uint16
	Inline, InlineEx      uint16 // bytes inline in a WQE of 64 and of 128 bytes; InlineEx 0: only 64
	CompVectors           uint32
	QPNReuse              bool // a QP number is free again as soon as the QP is destroyed, lowest first
}
