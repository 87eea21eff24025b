package wire

// RTALen is the size of the RTAs' mandatory header without rma_iov.
const RTALen = 24

// RTAKind is one of the four RTA packets.
type RTAKind uint8

// The four RTA packets, and what answers them.
const (
	RTAWrite   RTAKind = iota // WRITE_RTA: no answer
	RTAFetch                  // FETCH_RTA: answered by ATOMRSP
	RTACompare                // COMPARE_RTA: answered by ATOMRSP
	RTADCWrite                // DC_WRITE_RTA: answered by RECEIPT
	numRTAKinds
)

var rtaTypes = [numRTAKinds]Type{
	RTAWrite:   TypeWriteRTA,
	RTAFetch:   TypeFetchRTA,
	RTACompare: TypeCompareRTA,
	RTADCWrite: TypeDCWriteRTA,
}

// RTA asks for an emulated atomic: WRITE_RTA (§3.3, Table 3.13), FETCH_RTA and
// COMPARE_RTA (§3.3, Table 3.14), DC_WRITE_RTA (§4.2).
//
//	0      4        8               12         16          20     24
//	+------+--------+---------------+----------+-----------+------+-----------+
//	| base | msg_id | rma_iov_count | datatype | atomic_op | word | rma_iov[] |
//	+------+--------+---------------+----------+-----------+------+-----------+
//
// The optional headers and the operand follow; in a COMPARE_RTA the comparand,
// of the same length, follows the operand. The amount of work is the sum of
// rma_iov's lengths, in bytes: a fetch that only reads may come without data.
// Unlike in RTW and RTR the count isn't the first field.
//
// The word at 20 is padding in WRITE_RTA, which libfabric doesn't initialise,
// and recv_id in FETCH_RTA and COMPARE_RTA. Divergence: in DC_WRITE_RTA, for
// which the specification has no table, it is send_id.
type RTA struct {
	Options

	Kind        RTAKind
	MsgID       uint32
	RMAIOVCount uint32 // at most MaxIOV
	RMAIOV      [MaxIOV]RMAIOV
	Datatype    Datatype
	Op          AtomicOp
	RecvID      uint32 // if RTAFetch or RTACompare: echoed in ATOMRSP
	SendID      uint32 // if RTADCWrite: echoed in RECEIPT
}

// Type is WRITE_RTA, FETCH_RTA, COMPARE_RTA or DC_WRITE_RTA.
func (p *RTA) Type() Type { return rtaTypes[p.Kind] }

// Append adds the headers to b.
//
// Preconditions: RMAIOVCount <= MaxIOV, Kind is one of the four.
func (p *RTA) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.flags(FlagAtomic))
	b = le.AppendUint32(b, p.MsgID)
	b = le.AppendUint32(b, p.RMAIOVCount)
	b = le.AppendUint32(b, uint32(p.Datatype))
	b = le.AppendUint32(b, uint32(p.Op))
	switch p.Kind {
	case RTAFetch, RTACompare:
		b = le.AppendUint32(b, p.RecvID)
	case RTADCWrite:
		b = le.AppendUint32(b, p.SendID)
	default:
		b = le.AppendUint32(b, 0)
	}
	b = appendIOV(b, &p.RMAIOV, p.RMAIOVCount)
	return p.appendOptions(b)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *RTA) Read(v *View) (n int, err error) {
	if n, err = v.header(famRTA); err != nil {
		return 0, err
	}
	b := v.b
	q := RTA{
		MsgID:       le.Uint32(b[4:]),
		RMAIOVCount: uint32(v.iovCount),
		Datatype:    Datatype(le.Uint32(b[12:])),
		Op:          AtomicOp(le.Uint32(b[16:])),
	}
	switch v.Type {
	case TypeFetchRTA:
		q.Kind, q.RecvID = RTAFetch, le.Uint32(b[20:])
	case TypeCompareRTA:
		q.Kind, q.RecvID = RTACompare, le.Uint32(b[20:])
	case TypeDCWriteRTA:
		q.Kind, q.SendID = RTADCWrite, le.Uint32(b[20:])
	default:
		q.Kind = RTAWrite
	}
	v.rmaIOV(&q.RMAIOV)
	v.options(&q.Options)
	*p = q
	return n, nil
}

// ATOMRSPLen is the size of ATOMRSP's header.
const ATOMRSPLen = 24

// ATOMRSP is an ATOMic ReSPonse (§3.3, Table 3.15): the values that a FETCH_RTA
// or COMPARE_RTA found.
//
//	0      4          8          12        16               24
//	+------+----------+----------+---------+----------------+
//	| base | multiuse | reserved | recv_id | seg_length u64 |
//	+------+----------+----------+---------+----------------+
//
// The data follows. libfabric doesn't initialise reserved.
type ATOMRSP struct {
	HasConnID bool
	ConnID    uint32 // multiuse, if HasConnID
	RecvID    uint32 // the requester's, from the RTA
	SegLength uint64 // bytes of data in this packet
}

// Type is ATOMRSP.
func (p *ATOMRSP) Type() Type { return TypeATOMRSP }

// Append adds the header to b.
func (p *ATOMRSP) Append(b []byte) []byte {
	b = appendBase(b, TypeATOMRSP, connIDFlag(p.HasConnID))
	b = appendConnID(b, p.HasConnID, p.ConnID)
	b = append(b, 0, 0, 0, 0)
	b = le.AppendUint32(b, p.RecvID)
	return le.AppendUint64(b, p.SegLength)
}

// Read reads the headers of the packet that v has opened, and returns their length.
func (p *ATOMRSP) Read(v *View) (n int, err error) {
	if n, err = v.header(famATOMRSP); err != nil {
		return 0, err
	}
	b := v.b
	*p = ATOMRSP{
		HasConnID: v.hasConnID,
		ConnID:    v.connID,
		RecvID:    le.Uint32(b[12:]),
		SegLength: le.Uint64(b[16:]),
	}
	return n, nil
}
