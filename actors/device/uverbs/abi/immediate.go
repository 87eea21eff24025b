package abi

import "math/bits"

// Immediate is the number in a WQE or CQE for immediate data n as libfabric means it, and the
// other way round. Verbs' immediate data is big-endian, and rdma-core turns it for the device;
// libfabric gives verbs its n as it is, so that for EFA n lies there the wrong way round. A
// driver that did not do so would show libfabric's peers other numbers than they sent.
func Immediate(n uint32) uint32 { return bits.ReverseBytes32(n) }
