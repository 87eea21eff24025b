package wire

// MsgIDOf returns the msg_id of an RTM or RTA packet without a full decode, so
// that the order of messages can be kept even of requests that are refused
// (§3.1). It fails for other packets, and for those that are too short for their
// mandatory header.
func MsgIDOf(b []byte) (uint32, error) {
	base, err := ParseBase(b)
	if err != nil {
		return 0, err
	}
	info := &infos[base.Type]
	if info.traits&(traitRTM|traitRTA) == 0 {
		return 0, fail(base.Type, badType)
	}
	if len(b) < int(info.headerLen) {
		return 0, fail(base.Type, headerShort)
	}
	return le.Uint32(b[HeaderLen:]), nil
}

// RawAddrOf finds the raw address header of a REQ packet without a full decode
// (§2.2): how a sender that is not known yet introduces itself.
func RawAddrOf(b []byte) (RawAddr, bool) {
	base, err := ParseBase(b)
	if err != nil || base.Flags&FlagRawAddr == 0 {
		return RawAddr{}, false
	}
	info := &infos[base.Type]
	n := int(info.headerLen)
	if info.traits&traitREQ == 0 || len(b) < n {
		return RawAddr{}, false
	}
	if info.iovCountAt != 0 {
		count := le.Uint32(b[info.iovCountAt:])
		if count > MaxIOV {
			return RawAddr{}, false
		}
		n += int(count) * RMAIOVLen
	}
	if len(b) < n {
		return RawAddr{}, false
	}
	at, _, p := rawAddrHdr(b, n)
	if p != fine {
		return RawAddr{}, false
	}
	return RawAddr(b[at : at+RawAddrLen]), true
}
