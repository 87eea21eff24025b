package wire

// Sizes of the REQ optional headers as Append writes them.
const (
	RawAddrHdrLen      = 40 // size word, address, 4 bytes of padding
	RawAddrHdrShortLen = 36 // of releases 1.10 to 1.12: no padding
	CQDataHdrLen       = 8
	ConnIDHdrLen       = 4

	// rawAddrWireSize is the size word of the raw address header since release
	// 1.13: the address and 4 bytes of zero. Release 1.10 to 1.12 sent 32.
	// Every release goes by the size word, so 36 suits them all.
	rawAddrWireSize = RawAddrLen + rawAddrPadding
	rawAddrPadding  = 4
)

// Options holds the REQ optional headers (§3.1, Table 3.2). They stand between
// the mandatory header (with its rma_iov) and the application data, in the order
// of their flags:
//
//	+-----------+------------------+--------------+------------+
//	| size u32  | addr[size]       | cq_data u64  | connid u32 |
//	+-----------+------------------+--------------+------------+
//	  FlagRawAddr                    FlagCQData     FlagConnID
//
// The connid header has no padding, so that what follows need not be aligned.
// Senders use either the raw address, whose connid serves as the packet's, or
// the connid header, not both.
type Options struct {
	RawAddr    RawAddr
	HasRawAddr bool
	ShortAddr  bool // the raw address header is 36 bytes, as until 1.12

	CQData    uint64
	HasCQData bool

	ConnID    uint32
	HasConnID bool
}

// flags adds those of the headers to f.
func (o *Options) flags(f uint16) uint16 {
	if o.HasRawAddr {
		f |= FlagRawAddr
	}
	if o.HasCQData {
		f |= FlagCQData
	}
	if o.HasConnID {
		f |= FlagConnID
	}
	return f
}

// rtmFlags are the flags that all RTMs share.
func (o *Options) rtmFlags(tagged bool) uint16 {
	if tagged {
		return o.flags(FlagMsg | FlagTagged)
	}
	return o.flags(FlagMsg)
}

func (o *Options) appendOptions(b []byte) []byte {
	if o.HasRawAddr {
		if o.ShortAddr {
			b = le.AppendUint32(b, RawAddrLen)
			b = append(b, o.RawAddr[:]...)
		} else {
			b = le.AppendUint32(b, rawAddrWireSize)
			b = append(b, o.RawAddr[:]...)
			b = append(b, 0, 0, 0, 0)
		}
	}
	if o.HasCQData {
		b = le.AppendUint64(b, o.CQData)
	}
	if o.HasConnID {
		b = le.AppendUint32(b, o.ConnID)
	}
	return b
}

// rawAddrHdr finds the raw address header at b[n:]: its address begins at at,
// and next is the offset behind it.
func rawAddrHdr(b []byte, n int) (at, next int, p problem) {
	if len(b)-n < 4 {
		return 0, 0, rawAddrShort
	}
	size := le.Uint32(b[n:])
	at = n + 4
	if size < RawAddrLen {
		return 0, 0, rawAddrSize
	}
	if uint64(size) > uint64(len(b)-at) {
		return 0, 0, rawAddrShort
	}
	return at, at + int(size), fine
}
