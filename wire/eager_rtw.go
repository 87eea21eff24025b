package wire

// Sizes of the eager RTWs' mandatory headers without rma_iov.
const (
	EagerRTWLen   = 8
	DCEagerRTWLen = 16
)

// EagerRTW is an emulated eager write: EAGER_RTW (§3.3, Table 3.8), or with DC
// DC_EAGER_RTW (§4.2).
//
//	0      4               8
//	+------+---------------+-----------+
//	| base | rma_iov_count | rma_iov[] |               plain
//	+------+---------------+---------+-+---+-----------+
//	| base | rma_iov_count | send_id | pad | rma_iov[] |  DC
//	+------+---------------+---------+-----+-----------+
//	0      4               8         12    16
//
// The optional headers and the data follow.
//
// The zero EagerRTW, with a raw address and no data, solicits a HANDSHAKE: since
// release 1.12 an endpoint sends it when it must know the peer's features
// before it may send anything else. The specification doesn't mention that.
type EagerRTW struct {
	Options

	RMAIOVCount uint32 // at most MaxIOV
	RMAIOV      [MaxIOV]RMAIOV
	DC          bool
	SendID      uint32 // if DC: echoed in RECEIPT
}

// Type is EAGER_RTW or DC_EAGER_RTW.
func (p *EagerRTW) Type() Type {
	if p.DC {
		return TypeDCEagerRTW
	}
	return TypeEagerRTW
}

// Len is the number of bytes that Append adds.
func (p *EagerRTW) Len() int { return reqLen(p.Type(), &p.Options, p.RMAIOVCount) }

// Append adds the headers to b.
//
// Preconditions: RMAIOVCount <= MaxIOV.
func (p *EagerRTW) Append(b []byte) []byte {
	b = appendBase(b, p.Type(), p.flags(0))
	b = le.AppendUint32(b, p.RMAIOVCount)
	if p.DC {
		b = le.AppendUint32(b, p.SendID)
		b = append(b, 0, 0, 0, 0)
	}
	b = appendIOV(b, &p.RMAIOV, p.RMAIOVCount)
	return p.appendOptions(b)
}

// Parse reads the headers at the start of b; the data is b[n:].
func (p *EagerRTW) Parse(b []byte) (n int, err error) {
	v, err := Open(b)
	if err != nil {
		return 0, err
	}
	return p.Read(&v)
}

// Read is Parse of a packet that is open already.
func (p *EagerRTW) Read(v *View) (n int, err error) {
	if n, err = v.header(famEagerRTW); err != nil {
		return 0, err
	}
	b := v.b
	q := EagerRTW{RMAIOVCount: uint32(v.iovCount), DC: v.Type.IsDC()}
	if q.DC {
		q.SendID = le.Uint32(b[8:])
	}
	v.rmaIOV(&q.RMAIOV)
	v.options(&q.Options)
	*p = q
	return n, nil
}

func (p *EagerRTW) fields(l *line) {
	if p.DC {
		l.uint("send_id", uint64(p.SendID))
	}
	l.iov("rma_iov", p.RMAIOV[:p.RMAIOVCount])
	p.Options.fields(l)
}
