package wire

// Size and number of efa_rma_iov.
const (
	RMAIOVLen = 24 // size of one efa_rma_iov

	// MaxIOV bounds rma_iov and read_iov: more than any release sends, or
	// allows an application to pass (libfabric's rma_iov_limit is at most 4).
	MaxIOV = 4
)

// RMAIOV describes registered memory of one side (§3.3: efa_rma_iov): the
// responder's in rma_iov, the requester's in read_iov.
//
//	0        8        16       24
//	+--------+--------+--------+
//	|  addr  |  len   |  key   |
//	+--------+--------+--------+
//
// Len is in bytes, for atomics too. Of the key the low 32 bits matter to EFA.
type RMAIOV struct {
	Addr uint64
	Len  uint64
	Key  uint64
}

// appendIOV writes the first count entries of iov.
//
// Preconditions: count <= MaxIOV.
func appendIOV(b []byte, iov *[MaxIOV]RMAIOV, count uint32) []byte {
	for i := range iov[:count] {
		b = le.AppendUint64(b, iov[i].Addr)
		b = le.AppendUint64(b, iov[i].Len)
		b = le.AppendUint64(b, iov[i].Key)
	}
	return b
}

// parseIOV reads count entries at b[n:] into iov and returns the offset behind
// them. It says whether b held them.
//
// Preconditions: count <= MaxIOV.
func parseIOV(b []byte, n int, iov *[MaxIOV]RMAIOV, count uint32) (int, bool) {
	if len(b)-n < int(count)*RMAIOVLen {
		return 0, false
	}
	for i := range iov[:count] {
		e := b[n : n+RMAIOVLen]
		iov[i] = RMAIOV{Addr: le.Uint64(e), Len: le.Uint64(e[8:]), Key: le.Uint64(e[16:])}
		n += RMAIOVLen
	}
	return n, true
}

// parseReadIOV reads the read_iov that follow the optional headers of LONGREAD
// and RUNTREAD packets. They may be misaligned by 4 there.
func parseReadIOV(t Type, b []byte, n int, iov *[MaxIOV]RMAIOV, count uint32) (int, error) {
	if count > MaxIOV {
		return 0, fail(t, readIOVCount)
	}
	n, ok := parseIOV(b, n, iov, count)
	if !ok {
		return 0, fail(t, readIOVShort)
	}
	return n, nil
}
