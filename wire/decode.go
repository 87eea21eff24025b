package wire

// Packet is a packet of any type: one of this package's packet structs.
type Packet interface {
	// Type is the packet type that the fields select.
	Type() Type
	// Len is the number of bytes that Append adds.
	Len() int
	// Append adds the headers to b.
	Append(b []byte) []byte
	// Parse reads the headers at the start of b and returns their length.
	Parse(b []byte) (n int, err error)
	// Read is Parse of a packet that is open already.
	Read(v *View) (n int, err error)

	fields(l *line)
}

// Decode reads the headers of any packet; the data is b[n:]. It allocates the
// packet, so it is for captures, logs and tests: the hot path switches over the type
// that Open returns and reads into a struct of its own.
func Decode(b []byte) (pkt Packet, n int, err error) {
	v, err := Open(b)
	if err != nil {
		return nil, 0, err
	}
	pkt = newPacket(infos[v.Type].family)
	if n, err = pkt.Read(&v); err != nil {
		return nil, 0, err
	}
	return pkt, n, nil
}

// newPacket makes the struct of a family. This is the one place that lists all.
func newPacket(f family) Packet {
	switch f {
	case famCTS:
		return new(CTS)
	case famCTSData:
		return new(CTSData)
	case famREADRSP:
		return new(READRSP)
	case famEOR:
		return new(EOR)
	case famATOMRSP:
		return new(ATOMRSP)
	case famHandshake:
		return new(Handshake)
	case famReceipt:
		return new(Receipt)
	case famReadNACK:
		return new(ReadNACK)
	case famPeerError:
		return new(PeerError)
	case famEagerRTM:
		return new(EagerRTM)
	case famMediumRTM:
		return new(MediumRTM)
	case famLongCTSRTM:
		return new(LongCTSRTM)
	case famLongReadRTM:
		return new(LongReadRTM)
	case famRuntReadRTM:
		return new(RuntReadRTM)
	case famEagerRTW:
		return new(EagerRTW)
	case famLongCTSRTW:
		return new(LongCTSRTW)
	case famLongReadRTW:
		return new(LongReadRTW)
	case famRTR:
		return new(RTR)
	case famRTA:
		return new(RTA)
	case famNone:
	}
	panic("wire: packet family without a struct")
}
