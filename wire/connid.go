package wire

// ConnIDOf finds the connid of the packet's sender without a full decode: the
// explicit field if FlagConnID is set, wherever the type has it, else that of
// the raw address header (§4.4). It is false for a packet that has neither, is
// too short or isn't understood.
//
// It doesn't validate what it needn't read: a packet for which it succeeds may
// still fail to parse.
func ConnIDOf(b []byte) (connid uint32, ok bool) {
	base, err := ParseBase(b)
	if err != nil {
		return 0, false
	}
	info := &infos[base.Type]
	switch {
	case info.traits&traitREQ != 0:
		return reqConnID(base, info, b)
	case base.Flags&FlagConnID == 0 || len(b) < int(info.headerLen):
		return 0, false
	}
	at := int(info.connIDAt)
	if base.Type == TypeHandshake {
		_, next, p := extraInfo(b)
		if p != fine {
			return 0, false
		}
		at = next
	}
	return uint32At(b, at)
}

// reqConnID skips to the optional headers of a REQ packet.
func reqConnID(base Base, info *typeInfo, b []byte) (uint32, bool) {
	if base.Flags&(FlagConnID|FlagRawAddr) == 0 {
		return 0, false
	}
	n := int(info.headerLen)
	if len(b) < n {
		return 0, false
	}
	if info.iovCountAt != 0 {
		count := le.Uint32(b[info.iovCountAt:])
		if count > MaxIOV {
			return 0, false
		}
		n += int(count) * RMAIOVLen
		if len(b) < n {
			return 0, false
		}
	}
	var inRawAddr uint32
	if base.Flags&FlagRawAddr != 0 {
		at, next, p := rawAddrHdr(b, n)
		if p != fine {
			return 0, false
		}
		inRawAddr = RawAddr(b[at : at+RawAddrLen]).ConnID()
		n = next
	}
	if base.Flags&FlagConnID == 0 {
		return inRawAddr, true
	}
	if base.Flags&FlagCQData != 0 {
		n += CQDataHdrLen
	}
	return uint32At(b, n)
}

func uint32At(b []byte, at int) (uint32, bool) {
	if len(b)-at < 4 {
		return 0, false
	}
	return le.Uint32(b[at:]), true
}
