package wire

// reqLen is the size of a REQ packet's headers: the fixed part of its type, the
// optional headers, and iovs entries of rma_iov and read_iov.
func reqLen(t Type, o *Options, iovs uint32) int {
	return int(infos[t].headerLen) + int(iovs)*RMAIOVLen + o.Len()
}
