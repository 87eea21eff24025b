package device

// MaxPaths bounds the devices of one queue pair, see [QP.Paths].
const MaxPaths = 8

// Carried counts what a queue pair has sent and received over one device, as
// [QueueCounters] do over all of them.
type Carried struct {
	Sends, SendBytes   uint64 // packets posted, those sent again included
	Recvs, RecvBytes   uint64 // packets received
	Reads, ReadBytes   uint64 // RDMA reads posted
	Writes, WriteBytes uint64 // RDMA writes posted
}

// Posted counts a request that the device has taken.
func (c *Carried) Posted(wr *SendWR) {
	n := uint64(wr.Len())
	switch wr.Kind {
	case WRSend:
		c.Sends++
		c.SendBytes += n
	case WRRead:
		c.Reads++
		c.ReadBytes += n
	case WRWrite:
		c.Writes++
		c.WriteBytes += n
	}
}

// Came counts a packet that was received.
func (c *Carried) Came(n int) {
	c.Recvs++
	c.RecvBytes += uint64(n)
}

// Carried is all that the queue counted, as of one device.
func (c *QueueCounters) Carried() Carried {
	return Carried{
		Sends: c.SendPosted, SendBytes: c.SendBytes, Recvs: c.RecvDone, RecvBytes: c.RecvBytes,
		Reads: c.RDMAReads, ReadBytes: c.RDMAReadBytes,
		Writes: c.RDMAPosted - c.RDMAReads, WriteBytes: c.RDMABytes - c.RDMAReadBytes,
	}
}
