package abi

// Values of CreateQPType. EFA takes its own kind (SRD), and unreliable datagrams.
const (
	QPTypeRC           = 2
	QPTypeUC           = 3
	QPTypeUD           = 4
	QPTypeRawPacket    = 8
	QPTypeXRCInitiator = 9
	QPTypeXRCTarget    = 10
	QPTypeDriver       = 0xff
)

// RouteHeaderLen is how many bytes of a receive lie before a datagram: verbs keep room for a
// global route header there, and count it with the datagram's length.
const RouteHeaderLen = 40

// QPAllSignalled, in CreateQPFlags: every work request completes. QPFlagsKnown are
// the flags that the core knows.
const (
	QPAllSignalled = 1 << 12
	QPFlagsKnown   = QPAllSignalled | 1<<1 | 1<<8 | 1<<9 | 1<<11
)

// QPCapLen is the size of a QPCap.
const QPCapLen = 20

// QPCap has the depths of a queue pair: five u32.
type QPCap struct {
	MaxSendWR, MaxRecvWR   uint32
	MaxSendSGE, MaxRecvSGE uint32
	MaxInline              uint32 // bytes; above 32 WQEs have 128 bytes
}

// Append adds c to b.
func (c *QPCap) Append(b []byte) []byte {
	b = le.AppendUint32(b, c.MaxSendWR)
	b = le.AppendUint32(b, c.MaxRecvWR)
	b = le.AppendUint32(b, c.MaxSendSGE)
	b = le.AppendUint32(b, c.MaxRecvSGE)
	return le.AppendUint32(b, c.MaxInline)
}

// Parse reads c.
func (c *QPCap) Parse(b []byte) error {
	if err := need(b, QPCapLen); err != nil {
		return err
	}
	*c = QPCap{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[16:])}
	return nil
}

// Flags and service levels of a CreateQP.
const (
	QPUnsolicitedWrite = 1 << 0
	QPWideIDs          = 1 << 1
	ServiceLowLatency  = 8
	DriverQPTypeSRD    = 0
)

// Sizes of a CreateQP. A 6.1 kernel knows the first 16 bytes and takes the rest if
// it is 0.
const (
	CreateQPLen   = 24
	CreateQPLen61 = 16
)

// CreateQP is the driver's input of QPCreate.
//
//	0           4         8         12     16      18              19         24
//	+-----------+---------+---------+------+-------+---------------+----------+
//	| comp_mask | rq_size | sq_size | type | flags | service level | reserved |
//	+-----------+---------+---------+------+-------+---------------+----------+
type CreateQP struct {
	CompMask     uint32
	RQSize       uint32 // bytes: descriptors, rounded up to a power of two, of 16 each
	SQSize       uint32 // bytes: WQEs, a power of two, of 64 or 128 each
	DriverType   uint32 // DriverQPTypeSRD
	Flags        uint16
	ServiceLevel uint8
	Reserved     [5]byte
}

// Append adds c to b.
func (c *CreateQP) Append(b []byte) []byte {
	b = le.AppendUint32(b, c.CompMask)
	b = le.AppendUint32(b, c.RQSize)
	b = le.AppendUint32(b, c.SQSize)
	b = le.AppendUint32(b, c.DriverType)
	b = le.AppendUint16(b, c.Flags)
	b = append(b, c.ServiceLevel)
	return append(b, c.Reserved[:]...)
}

// Parse reads c.
func (c *CreateQP) Parse(b []byte) error {
	if err := need(b, CreateQPLen); err != nil {
		return err
	}
	*c = CreateQP{
		CompMask:     le.Uint32(b),
		RQSize:       le.Uint32(b[4:]),
		SQSize:       le.Uint32(b[8:]),
		DriverType:   le.Uint32(b[12:]),
		Flags:        le.Uint16(b[16:]),
		ServiceLevel: b[18],
		Reserved:     [5]byte(b[19:24]),
	}
	return nil
}

// CreateQPRespLen is the size of a CreateQPResp.
const CreateQPRespLen = 64

// CreateQPResp is the driver's output of QPCreate. Keys are what mmap takes for the
// offset; 0 is one. Without receive queue there are no RQ mappings.
//
//	0           4         8         12         16       24        32          40          48         56
//	+-----------+---------+---------+----------+--------+---------+-----------+-----------+----------+
//	| comp_mask | rq_db_off sq_db_off llq_off  | rq_key | rq_size | rq_db_key | sq_db_key | llq_key  |
//	+-----------+---------+---------+----------+--------+---------+-----------+-----------+----------+
//	56: send_sub_cq u16, recv_sub_cq u16, reserved
type CreateQPResp struct {
	CompMask      uint32
	RQDoorbellOff uint32 // offsets are those in a page
	SQDoorbellOff uint32
	LLQOff        uint32
	RQKey         uint64
	RQSize        uint64 // bytes of the mapping, whole pages
	RQDoorbellKey uint64 // of one page
	SQDoorbellKey uint64 // of one page
	LLQKey        uint64 // of SQSize and LLQOff bytes, rounded up to whole pages
	SendSubCQ     uint16
	RecvSubCQ     uint16
	Reserved      uint32
}

// Append adds r to b.
func (r *CreateQPResp) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.CompMask)
	b = le.AppendUint32(b, r.RQDoorbellOff)
	b = le.AppendUint32(b, r.SQDoorbellOff)
	b = le.AppendUint32(b, r.LLQOff)
	b = le.AppendUint64(b, r.RQKey)
	b = le.AppendUint64(b, r.RQSize)
	b = le.AppendUint64(b, r.RQDoorbellKey)
	b = le.AppendUint64(b, r.SQDoorbellKey)
	b = le.AppendUint64(b, r.LLQKey)
	b = le.AppendUint16(b, r.SendSubCQ)
	b = le.AppendUint16(b, r.RecvSubCQ)
	return le.AppendUint32(b, r.Reserved)
}

// Parse reads r.
func (r *CreateQPResp) Parse(b []byte) error {
	if err := need(b, CreateQPRespLen); err != nil {
		return err
	}
	*r = CreateQPResp{
		CompMask:      le.Uint32(b),
		RQDoorbellOff: le.Uint32(b[4:]),
		SQDoorbellOff: le.Uint32(b[8:]),
		LLQOff:        le.Uint32(b[12:]),
		RQKey:         le.Uint64(b[16:]),
		RQSize:        le.Uint64(b[24:]),
		RQDoorbellKey: le.Uint64(b[32:]),
		SQDoorbellKey: le.Uint64(b[40:]),
		LLQKey:        le.Uint64(b[48:]),
		SendSubCQ:     le.Uint16(b[56:]),
		RecvSubCQ:     le.Uint16(b[58:]),
		Reserved:      le.Uint32(b[60:]),
	}
	return nil
}

// DestroyQPRespLen is the size of the output of QPDestroy: asynchronous events that
// the program has read, a u32.
const DestroyQPRespLen = 4

// QPState is where a queue pair stands.
type QPState uint8

// States of a queue pair.
const (
	QPReset QPState = iota
	QPInit          // receives may be posted
	QPRTR           // receives
	QPRTS           // sends, too
	QPSQD           // send queue drains
	QPSQE           // send queue in error
	QPError
)

// String is the state's name in verbs.
func (s QPState) String() string {
	names := [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}
	if int(s) >= len(names) {
		return "QPState(?)"
	}
	return names[s]
}

// Bits of AttrMask in ModifyQP and QueryQP.
const (
	AttrState     = 1 << 0
	AttrCurState  = 1 << 1
	AttrSQDNotify = 1 << 2
	AttrAccess    = 1 << 3
	AttrPkey      = 1 << 4
	AttrPort      = 1 << 5
	AttrQKey      = 1 << 6
	AttrAV        = 1 << 7
	AttrRNRRetry  = 1 << 11
	AttrAltPath   = 1 << 14
	AttrSQPSN     = 1 << 16
	AttrCaps      = 1 << 19
	AttrDestQPN   = 1 << 20
	AttrKnown     = AttrDestQPN<<1 - 1 // what CmdModifyQP lets through
)

// QKeyPrivileged is the bit of a Q_Key that takes privilege.
const QKeyPrivileged = 1 << 31

// ModifyQPLen is the size of a ModifyQP.
const ModifyQPLen = 112

// ModifyQP is the input of CmdModifyQP: two paths of 32 bytes, which EFA doesn't
// use, then handle u32 64, mask u32 68, qkey u32 72, rq_psn u32 76, sq_psn u32 80,
// dest u32 84, access u32 88, pkey u16 92, alt_pkey u16 94, state u8 96,
// cur_state u8 97, path_mtu, path_mig u8 98, sqd_notify u8 100, port u8 104,
// rnr_retry u8 107.
type ModifyQP struct {
	Handle    uint32
	Mask      uint32
	QKey      uint32
	SQPSN     uint32
	PkeyIndex uint16
	State     QPState
	CurState  QPState
	SQDNotify uint8
	Port      uint8
	RNRRetry  uint8 // 7: for ever
	Others    bool  // Parse: something else isn't 0
}

// Append adds m to b.
func (m *ModifyQP) Append(b []byte) []byte {
	var p [ModifyQPLen]byte
	le.PutUint32(p[64:], m.Handle)
	le.PutUint32(p[68:], m.Mask)
	le.PutUint32(p[72:], m.QKey)
	le.PutUint32(p[80:], m.SQPSN)
	le.PutUint16(p[92:], m.PkeyIndex)
	p[96], p[97], p[100] = uint8(m.State), uint8(m.CurState), m.SQDNotify
	p[104], p[107] = m.Port, m.RNRRetry
	return append(b, p[:]...)
}

// Parse reads m.
func (m *ModifyQP) Parse(b []byte) error {
	if err := need(b, ModifyQPLen); err != nil {
		return err
	}
	*m = ModifyQP{
		Handle:    le.Uint32(b[64:]),
		Mask:      le.Uint32(b[68:]),
		QKey:      le.Uint32(b[72:]),
		SQPSN:     le.Uint32(b[80:]),
		PkeyIndex: le.Uint16(b[92:]),
		State:     QPState(b[96]),
		CurState:  QPState(b[97]),
		SQDNotify: b[100],
		Port:      b[104],
		RNRRetry:  b[107],
	}
	rest := [ModifyQPLen]byte(b)
	clear(rest[64:76]) // handle, mask, qkey
	clear(rest[80:84]) // sq_psn
	clear(rest[92:94]) // pkey
	clear(rest[96:98]) // states
	rest[100], rest[104], rest[107] = 0, 0, 0
	m.Others = rest != [ModifyQPLen]byte{}
	return nil
}

// QueryQPLen is the size of a QueryQP.
const QueryQPLen = 16

// QueryQP is the input of CmdQueryQP.
type QueryQP struct {
	Response uint64 // ignored
	Handle   uint32
	Mask     uint32
}

// Append adds q to b.
func (q *QueryQP) Append(b []byte) []byte {
	b = le.AppendUint64(b, q.Response)
	b = le.AppendUint32(b, q.Handle)
	return le.AppendUint32(b, q.Mask)
}

// Parse reads q.
func (q *QueryQP) Parse(b []byte) error {
	if err := need(b, QueryQPLen); err != nil {
		return err
	}
	*q = QueryQP{le.Uint64(b), le.Uint32(b[8:]), le.Uint32(b[12:])}
	return nil
}

// QueryQPRespLen is the size of a QueryQPResp.
const QueryQPRespLen = 128

// QueryQPResp is the output of CmdQueryQP: two paths of 32 bytes, which EFA doesn't
// use, then a QPCap at 64, qkey u32 84, sq_psn u32 92, pkey u16 104, state u8 108,
// cur_state u8 109, draining u8 112, port u8 116, rnr_retry u8 119, all_signalled u8 122.
type QueryQPResp struct {
	Caps         QPCap
	QKey         uint32
	SQPSN        uint32
	PkeyIndex    uint16
	State        QPState
	CurState     QPState
	Draining     uint8
	Port         uint8
	RNRRetry     uint8
	AllSignalled uint8
}

// Append adds r to b.
func (r *QueryQPResp) Append(b []byte) []byte {
	var p [QueryQPRespLen]byte
	r.Caps.Append(p[64:64])
	le.PutUint32(p[84:], r.QKey)
	le.PutUint32(p[92:], r.SQPSN)
	le.PutUint16(p[104:], r.PkeyIndex)
	p[108], p[109], p[112] = uint8(r.State), uint8(r.CurState), r.Draining
	p[116], p[119], p[122] = r.Port, r.RNRRetry, r.AllSignalled
	return append(b, p[:]...)
}

// Parse reads r.
func (r *QueryQPResp) Parse(b []byte) error {
	if err := need(b, QueryQPRespLen); err != nil {
		return err
	}
	*r = QueryQPResp{
		QKey:         le.Uint32(b[84:]),
		SQPSN:        le.Uint32(b[92:]),
		PkeyIndex:    le.Uint16(b[104:]),
		State:        QPState(b[108]),
		CurState:     QPState(b[109]),
		Draining:     b[112],
		Port:         b[116],
		RNRRetry:     b[119],
		AllSignalled: b[122],
	}
	return r.Caps.Parse(b[64:])
}
