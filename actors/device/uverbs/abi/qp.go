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
