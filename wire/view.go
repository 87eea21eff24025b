package wire

// View is a packet that has arrived: its base header, its sender's connid, and where its
// headers end. [Open] makes it, once for each packet.
//
// The packet may lie in memory that another process can still change. So Open reads each
// field that decides about other fields (type, flags, counts, sizes) and the connid once,
// checks it and keeps it, and the packet structs' Read goes by what Open has kept.
// The bytes must stay valid as long as the View is in use.
//
// Read of the zero View fails with ErrType, and so does that of one that could not be opened.
type View struct {
	Base

	fault     problem // of the fixed part, of rma_iov or of the optional headers
	iovCount  uint8   // rma_iov_count
	optionsAt uint8   // REQ packets: offset of the optional headers
	hasConnID bool

	connID      uint32
	rawAddrSize uint32 // the size word of the raw address header, 0 without one
	end         int    // offset behind the headers; read_iov and CTSDATA's connid lie behind it
	b           []byte
}

// Open reads what must be known of a packet before it is dispatched (§1.3, §3.1). It fails
// with ErrShort if b has no base header, with ErrVersion if the version isn't 4, with
// ErrType if the type is unknown, retired (RTS, CONNACK) or internal to libfabric (0 and
// 6), and with ErrNotSupported for the types that have a name and no layout. A packet for
// which it fails is to be dropped and counted. What else is wrong with the headers,
// Read reports.
func Open(b []byte) (v View, err error) {
	err = v.Open(b)
	return v, err
}

// Open is [Open] into a View that is there already.
func (v *View) Open(b []byte) error {
	if len(b) < HeaderLen {
		return v.unopened(b, fail(0, baseShort))
	}
	head := le.Uint32(b)
	info := infos[uint8(head)] // a copy, for which one look into the table is enough
	if uint8(head>>8) != Version || info.family == famNone {
		return v.unopened(b, baseError(Base{Type: Type(head), Version: uint8(head >> 8), Flags: uint16(head >> 16)}))
	}
	// Field by field: a View made elsewhere and copied here is read in wider pieces than it
	// was just written in, for which the processor waits.
	v.Type, v.Version, v.Flags = Type(head), Version, uint16(head>>16)
	n := int(info.headerLen)
	v.fault, v.iovCount, v.optionsAt, v.hasConnID = fine, 0, uint8(n), false
	v.rawAddrSize, v.b = 0, b
	if len(b) < n {
		v.fault, v.connID, v.end = headerShort, 0, n
		return nil
	}
	if info.traits&traitRTM != 0 { // which has no rma_iov
		options := head >> 16 & uint32(FlagRawAddr|FlagCQData|FlagConnID)
		if rest := b[n:]; options == uint32(FlagConnID) && len(rest) >= ConnIDHdrLen { // openOptions would do the same
			v.connID, v.hasConnID, v.end = le.Uint32(rest), true, n+ConnIDHdrLen
			return nil
		}
		if v.connID, v.end = 0, n; options != 0 {
			v.openOptions()
		}
		return nil
	}
	v.connID, v.end = 0, n
	v.openMore(info)
	return nil
}

// openMore finds the end of the headers of packets that are no messages, and their connid.
func (v *View) openMore(info typeInfo) {
	switch {
	case info.traits&traitREQ != 0:
		v.openIOV(int(info.iovCountAt))
		v.optionsAt = uint8(v.end)
		if v.Flags&(FlagRawAddr|FlagCQData|FlagConnID) != 0 && v.fault == fine {
			v.openOptions()
		}
	case v.Type == TypeHandshake:
		if v.end, v.fault = extraInfo(v.b); v.fault == fine && v.Flags&FlagConnID != 0 {
			v.connID, v.hasConnID = uint32At(v.b, v.end)
		}
	case v.Type == TypePeerError:
		v.openPeerError()
	case v.Flags&FlagConnID != 0:
		v.connID, v.hasConnID = uint32At(v.b, int(info.connIDAt))
	}
}

// openPeerError finds which form a PEER_ERROR has, by its length, before it looks at the
// connid: where that lies in one form, another has prov_errno or the emitter.
func (v *View) openPeerError() {
	v.end = len(v.b)
	switch {
	case v.end > PeerErrorLen28:
		v.fault = peerErrorLength
	case !peerErrorFits(v.end):
		v.fault = headerShort
	case v.Flags&FlagConnID != 0:
		v.connID, v.hasConnID = uint32At(v.b, v.end-peerErrorConnID)
	}
}

// openIOV skips the rma_iov of RTW, RTR and RTA packets.
func (v *View) openIOV(countAt int) {
	count := le.Uint32(v.b[countAt:])
	switch n := v.end + int(count)*RMAIOVLen; {
	case count > MaxIOV:
		v.fault = rmaIOVCount
	case len(v.b) < n:
		v.fault = rmaIOVShort
	default:
		v.iovCount, v.end = uint8(count), n
	}
}

// openOptions finds the end of the optional headers of a REQ packet (§3.1). The connid is
// that of its own header or else the raw address's (§4.4).
func (v *View) openOptions() {
	n := v.end
	if v.Flags&FlagRawAddr != 0 {
		at, next, p := rawAddrHdr(v.b, n)
		if p != fine {
			v.fault = p
			return
		}
		v.rawAddrSize = uint32(next - at)
		if n = next; v.Flags&FlagConnID == 0 {
			v.connID, v.hasConnID = le.Uint32(v.b[at+rawAddrConnIDAt:]), true
		}
	}
	if v.Flags&FlagCQData != 0 {
		if len(v.b)-n < CQDataHdrLen {
			v.fault = cqDataShort
			return
		}
		n += CQDataHdrLen
	}
	if v.Flags&FlagConnID != 0 {
		if v.connID, v.hasConnID = uint32At(v.b, n); !v.hasConnID {
			v.fault = connIDShort
			return
		}
		n += ConnIDHdrLen
	}
	v.end = n
}

// unopened is Open of a packet that is to be dropped, for that reason.
func (v *View) unopened(b []byte, err error) error {
	*v = View{b: b}
	return err
}

// Packet is a packet of any type: one of this package's packet structs.
type Packet interface {
	// Type is the packet type that the fields select.
	Type() Type
	// Append adds the headers to b.
	Append(b []byte) []byte
	// Read reads the headers of the packet that v has opened, and returns their length.
	Read(v *View) (n int, err error)
}

// Decode reads the headers of any packet; the data is b[n:]. It allocates the
// packet, so it is for captures, logs and tests: the hot path switches over the type
// that Open returns and reads into a struct of its own.
func Decode(b []byte) (pkt Packet, n int, err error) {
	v, err := Open(b)
	if err != nil {
		return nil, 0, err
	}
	pkt = packets[infos[v.Type].family]()
	if n, err = pkt.Read(&v); err != nil {
		return nil, 0, err
	}
	return pkt, n, nil
}

// packets makes the struct of each family. This is the one place that lists all.
var packets = [...]func() Packet{
	famCTS:         func() Packet { return new(CTS) },
	famCTSData:     func() Packet { return new(CTSData) },
	famREADRSP:     func() Packet { return new(READRSP) },
	famEOR:         func() Packet { return new(EOR) },
	famATOMRSP:     func() Packet { return new(ATOMRSP) },
	famHandshake:   func() Packet { return new(Handshake) },
	famReceipt:     func() Packet { return new(Receipt) },
	famReadNACK:    func() Packet { return new(ReadNACK) },
	famPeerError:   func() Packet { return new(PeerError) },
	famEagerRTM:    func() Packet { return new(EagerRTM) },
	famMediumRTM:   func() Packet { return new(MediumRTM) },
	famLongCTSRTM:  func() Packet { return new(LongCTSRTM) },
	famLongReadRTM: func() Packet { return new(LongReadRTM) },
	famRuntReadRTM: func() Packet { return new(RuntReadRTM) },
	famEagerRTW:    func() Packet { return new(EagerRTW) },
	famLongCTSRTW:  func() Packet { return new(LongCTSRTW) },
	famLongReadRTW: func() Packet { return new(LongReadRTW) },
	famRTR:         func() Packet { return new(RTR) },
	famRTA:         func() Packet { return new(RTA) },
}

// Bytes is the packet, whether it could be opened or not.
func (v *View) Bytes() []byte { return v.b }

// ConnID returns the connid of the packet's sender: the explicit field if FlagConnID is
// set, wherever the type has it, else that of the raw address header (§4.4). It is false
// for a packet that has neither or is too short for it. A packet that has one may still
// fail to parse.
func (v *View) ConnID() (connid uint32, ok bool) { return v.connID, v.hasConnID }

// MsgID returns the msg_id of an RTM or RTA packet (§3.1). It is false for other packets,
// and for one that is too short for its mandatory header.
func (v *View) MsgID() (id uint32, ok bool) {
	if !v.Type.HasMsgID() || v.fault == headerShort {
		return 0, false
	}
	return le.Uint32(v.b[HeaderLen:]), true
}

// RawAddr returns the raw address header of a REQ packet (§2.2), with which a sender that
// is not known yet introduces itself, and reports whether there is one. A packet that has
// one may still fail to parse.
func (v *View) RawAddr() (RawAddr, bool) {
	if v.rawAddrSize == 0 {
		return RawAddr{}, false
	}
	at := int(v.optionsAt) + 4
	r := RawAddr(v.b[at : at+RawAddrLen])
	if v.Flags&FlagConnID == 0 { // then Open has read it
		le.PutUint32(r[rawAddrConnIDAt:], v.connID)
	}
	return r, true
}

// header returns the length of the headers that Open has seen whole, of a packet of
// family f.
func (v *View) header(f family) (n int, err error) {
	if infos[v.Type].family != f {
		return 0, fail(v.Type, badType)
	}
	if v.fault != fine {
		return 0, fail(v.Type, v.fault)
	}
	return v.end, nil
}

// options reads the optional headers into o. A raw address longer than 32 bytes was
// skipped whole, and its first 32 bytes count: the format may grow (§1.4).
//
// Preconditions: v.header has succeeded, v is a REQ packet, and o is zero.
func (v *View) options(o *Options) {
	if v.Flags&(FlagRawAddr|FlagCQData|FlagConnID) == 0 {
		return
	}
	o.RawAddr, o.HasRawAddr = v.RawAddr()
	o.ShortAddr = v.rawAddrSize == RawAddrLen
	o.CQData, o.HasCQData = v.cqData()
	if v.Flags&FlagConnID != 0 {
		o.ConnID, o.HasConnID = v.connID, true
	}
}

// cqData reads the CQ data header, on the same conditions as options.
func (v *View) cqData() (data uint64, has bool) {
	if v.Flags&FlagCQData == 0 {
		return 0, false
	}
	at := v.end - CQDataHdrLen
	if v.Flags&FlagConnID != 0 {
		at -= ConnIDHdrLen
	}
	return le.Uint64(v.b[at:]), true
}

// rmaIOV reads the rma_iov, on the same conditions as options.
func (v *View) rmaIOV(iov *[MaxIOV]RMAIOV) {
	parseIOV(v.b, int(infos[v.Type].headerLen), iov, uint32(v.iovCount))
}

// tag reads the tag, the last field of every tagged RTM's mandatory header.
func (v *View) tag() uint64 { return le.Uint64(v.b[infos[v.Type].headerLen-8:]) }

func uint32At(b []byte, at int) (uint32, bool) {
	if len(b)-at < 4 {
		return 0, false
	}
	return le.Uint32(b[at:]), true
}
