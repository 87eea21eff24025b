package device

import "math/bits"

// imm turns remote CQ data into a device's immediate data, or back. Libfabric gives the
// number to verbs as if it were in network order, as they want it, and verbs turn it into the
// device's order; so what a device carries has the bytes of the number in reverse.
func imm(v uint32) uint32 { return bits.ReverseBytes32(v) }
