package abi

// Abilities of a program, in ContextCmd.Caps. A device that needs one refuses a
// program without it.
const (
	CapTxBatch = 1 << 0 // ContextResp.MaxTxBatch
	CapMinSQ   = 1 << 1 // ContextResp.MinSQ
)

// ContextCmdLen is the size of a ContextCmd.
const ContextCmdLen = 8

// ContextCmd is the driver's input of DeviceGetContext.
type ContextCmd struct {
	Caps     uint32 // older headers: comp_mask
	Reserved uint32
}

// Append adds c to b.
func (c *ContextCmd) Append(b []byte) []byte {
	b = le.AppendUint32(b, c.Caps)
	return le.AppendUint32(b, c.Reserved)
}

// Parse reads c.
func (c *ContextCmd) Parse(b []byte) error {
	if err := need(b, ContextCmdLen); err != nil {
		return err
	}
	*c = ContextCmd{Caps: le.Uint32(b), Reserved: le.Uint32(b[4:])}
	return nil
}

// The driver's part of the response, in ContextResp.Udata.
const (
	UdataQueryDevice = 1 << 0 // DeviceResp
	UdataCreateAH    = 1 << 1 // CreateAHResp: without it there are no AH numbers
)

// ContextRespLen is the size of a ContextResp.
const ContextRespLen = 24

// ContextResp is the driver's output of DeviceGetContext.
//
//	0           4       8        10       12        16         18     20          22         24
//	+-----------+-------+--------+--------+---------+----------+------+-----------+----------+
//	| comp_mask | udata | subcqs | inline | max_llq | tx_batch | min  | inline_ex | reserved |
//	+-----------+-------+--------+--------+---------+----------+------+-----------+----------+
type ContextResp struct {
	CompMask   uint32
	Udata      uint32
	SubCQs     uint16 // rings of a completion queue
	Inline     uint16 // bytes inline in a WQE of 64 bytes
	MaxLLQ     uint32 // bytes of a send queue
	MaxTxBatch uint16 // units of 64 bytes between two doorbells; 0: no limit
	MinSQ      uint16 // WQEs
	InlineEx   uint16 // bytes inline in a WQE of 128 bytes; 0, and before it existed: Inline
	Reserved   uint16
}

// Append adds r to b.
func (r *ContextResp) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.CompMask)
	b = le.AppendUint32(b, r.Udata)
	b = le.AppendUint16(b, r.SubCQs)
	b = le.AppendUint16(b, r.Inline)
	b = le.AppendUint32(b, r.MaxLLQ)
	b = le.AppendUint16(b, r.MaxTxBatch)
	b = le.AppendUint16(b, r.MinSQ)
	b = le.AppendUint16(b, r.InlineEx)
	return le.AppendUint16(b, r.Reserved)
}

// Parse reads r.
func (r *ContextResp) Parse(b []byte) error {
	if err := need(b, ContextRespLen); err != nil {
		return err
	}
	*r = ContextResp{
		CompMask:   le.Uint32(b),
		Udata:      le.Uint32(b[4:]),
		SubCQs:     le.Uint16(b[8:]),
		Inline:     le.Uint16(b[10:]),
		MaxLLQ:     le.Uint32(b[12:]),
		MaxTxBatch: le.Uint16(b[16:]),
		MinSQ:      le.Uint16(b[18:]),
		InlineEx:   le.Uint16(b[20:]),
		Reserved:   le.Uint16(b[22:]),
	}
	return nil
}

// Sizes of a DeviceAttr: of CmdQueryDevice, the least that CmdQueryDeviceEx takes,
// and in full.
const (
	DeviceAttrBaseLen = 176
	DeviceAttrMinLen  = 184
	DeviceAttrLen     = 304
)

// ExCmdLen is the input of an extended command that has none: 8 bytes of zeros.
const ExCmdLen = 8

// WriteCmdLen is the input of a command that has none: where the write transport has
// the address of the response.
const WriteCmdLen = 8

// DeviceAttr is the output of CmdQueryDeviceEx. Offsets of the fields that aren't 0:
//
//	fw_ver u64 0, node_guid 8, max_mr_size u64 24, page_size_cap u64 32, vendor_id 40,
//	part_id 44, hw_ver 48, max_qp 52, max_qp_wr 56, max_sge 64, max_sge_rd 68,
//	max_cq 72, max_cqe 76, max_mr 80, max_pd 84, max_ah 144, max_pkeys u16 168,
//	ports u8 171, comp_mask 176, response_length 180
type DeviceAttr struct {
	FwVer          uint64 // 4 bytes, printed with dots
	NodeGUID       [8]byte
	MaxMRSize      uint64
	PageSizeCap    uint64 // a bit for each page size
	VendorID       uint32 // VendorAmazon
	PartID         uint32
	HwVer          uint32
	MaxQP          uint32
	MaxQPWR        uint32 // the smaller of both queues
	MaxSGE         uint32
	MaxSGERd       uint32 // of an RDMA request
	MaxCQ          uint32
	MaxCQE         uint32
	MaxMR          uint32
	MaxPD          uint32
	MaxAH          uint32
	MaxPkeys       uint16
	Ports          uint8
	CompMask       uint32
	ResponseLength uint32 // bytes that the kernel has filled
}

// Append adds d to b.
func (d *DeviceAttr) Append(b []byte) []byte {
	var p [DeviceAttrLen]byte
	le.PutUint64(p[0:], d.FwVer)
	copy(p[8:16], d.NodeGUID[:])
	le.PutUint64(p[24:], d.MaxMRSize)
	le.PutUint64(p[32:], d.PageSizeCap)
	le.PutUint32(p[40:], d.VendorID)
	le.PutUint32(p[44:], d.PartID)
	le.PutUint32(p[48:], d.HwVer)
	le.PutUint32(p[52:], d.MaxQP)
	le.PutUint32(p[56:], d.MaxQPWR)
	le.PutUint32(p[64:], d.MaxSGE)
	le.PutUint32(p[68:], d.MaxSGERd)
	le.PutUint32(p[72:], d.MaxCQ)
	le.PutUint32(p[76:], d.MaxCQE)
	le.PutUint32(p[80:], d.MaxMR)
	le.PutUint32(p[84:], d.MaxPD)
	le.PutUint32(p[144:], d.MaxAH)
	le.PutUint16(p[168:], d.MaxPkeys)
	p[171] = d.Ports
	le.PutUint32(p[176:], d.CompMask)
	le.PutUint32(p[180:], d.ResponseLength)
	return append(b, p[:]...)
}

// Parse reads d.
func (d *DeviceAttr) Parse(b []byte) error {
	if err := need(b, DeviceAttrLen); err != nil {
		return err
	}
	*d = DeviceAttr{
		FwVer:       le.Uint64(b),
		NodeGUID:    [8]byte(b[8:16]),
		MaxMRSize:   le.Uint64(b[24:]),
		PageSizeCap: le.Uint64(b[32:]),
		VendorID:    le.Uint32(b[40:]), PartID: le.Uint32(b[44:]), HwVer: le.Uint32(b[48:]),
		MaxQP: le.Uint32(b[52:]), MaxQPWR: le.Uint32(b[56:]),
		MaxSGE: le.Uint32(b[64:]), MaxSGERd: le.Uint32(b[68:]),
		MaxCQ: le.Uint32(b[72:]), MaxCQE: le.Uint32(b[76:]),
		MaxMR: le.Uint32(b[80:]), MaxPD: le.Uint32(b[84:]), MaxAH: le.Uint32(b[144:]),
		MaxPkeys: le.Uint16(b[168:]), Ports: b[171],
		CompMask: le.Uint32(b[176:]), ResponseLength: le.Uint32(b[180:]),
	}
	return nil
}

// Abilities of the device, in DeviceResp.Caps. A 6.1 kernel knows those up to
// DeviceSGID.
const (
	DeviceRDMARead         = 1 << 0
	DeviceRNRRetry         = 1 << 1 // AttrRNRRetry may be set
	DeviceNotify           = 1 << 2 // completion channels
	DeviceSGID             = 1 << 3 // CQSGID
	DevicePolling128       = 1 << 4 // data arrives in order within 128 bytes
	DeviceRDMAWrite        = 1 << 5
	DeviceUnsolicitedWrite = 1 << 6 // QPUnsolicitedWrite
	DeviceCallerCQ         = 1 << 7 // queues in the caller's memory
	DeviceCounters         = 1 << 8
	DeviceWideIDs          = 1 << 9 // request ids of 64 bits
)

// DeviceRespLen is the size of a DeviceResp.
const DeviceRespLen = 24

// DeviceResp is the driver's output of CmdQueryDeviceEx.
//
//	0           4        8        12         14         16         20     24
//	+-----------+--------+--------+----------+----------+----------+------+
//	| comp_mask | max_sq | max_rq | sq_sge   | rq_sge   | max_rdma | caps |
//	+-----------+--------+--------+----------+----------+----------+------+
type DeviceResp struct {
	CompMask           uint32
	MaxSQ, MaxRQ       uint32
	MaxSGESQ, MaxSGERQ uint16
	MaxRDMA            uint32 // bytes
	Caps               uint32
}

// Append adds r to b.
func (r *DeviceResp) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.CompMask)
	b = le.AppendUint32(b, r.MaxSQ)
	b = le.AppendUint32(b, r.MaxRQ)
	b = le.AppendUint16(b, r.MaxSGESQ)
	b = le.AppendUint16(b, r.MaxSGERQ)
	b = le.AppendUint32(b, r.MaxRDMA)
	return le.AppendUint32(b, r.Caps)
}

// Parse reads r.
func (r *DeviceResp) Parse(b []byte) error {
	if err := need(b, DeviceRespLen); err != nil {
		return err
	}
	*r = DeviceResp{
		CompMask: le.Uint32(b),
		MaxSQ:    le.Uint32(b[4:]), MaxRQ: le.Uint32(b[8:]),
		MaxSGESQ: le.Uint16(b[12:]), MaxSGERQ: le.Uint16(b[14:]),
		MaxRDMA: le.Uint32(b[16:]), Caps: le.Uint32(b[20:]),
	}
	return nil
}

// PortNumber is the only port of an EFA device.
const PortNumber = 1

// PortAttrLen is the size of a PortAttr.
const PortAttrLen = 48

// PortAttr is the output of DeviceQueryPort. Offsets of the fields that aren't 0:
//
//	max_msg u32 4, gid_tbl_len u32 16, pkey_tbl_len u16 20, state u8 26, max_mtu u8 27,
//	active_mtu u8 28, lmc u8 29, max_vl u8 30, width u8 34, speed u8 35, phys_state u8 36,
//	link_layer u8 37
type PortAttr struct {
	MaxMsg     uint32 // the device's MTU: payload bytes of the largest SEND
	GIDTable   uint32 // 1
	PkeyTable  uint16
	State      uint8 // PortActive
	MaxMTU     uint8 // enum, rounded down
	ActiveMTU  uint8 // enum, rounded down
	LMC, MaxVL uint8
	Width      uint8
	Speed      uint8
	PhysState  uint8
	LinkLayer  uint8
}

// PortActive is PortAttr.State of a port that works, PortDown of one that does not, PortLinkUp
// the PhysState of a link.
const (
	PortDown   = 1
	PortActive = 4
	PortLinkUp = 5
)

// Append adds p to b.
func (p *PortAttr) Append(b []byte) []byte {
	var a [PortAttrLen]byte
	le.PutUint32(a[4:], p.MaxMsg)
	le.PutUint32(a[16:], p.GIDTable)
	le.PutUint16(a[20:], p.PkeyTable)
	a[26], a[27], a[28] = p.State, p.MaxMTU, p.ActiveMTU
	a[29], a[30] = p.LMC, p.MaxVL
	a[34], a[35], a[36], a[37] = p.Width, p.Speed, p.PhysState, p.LinkLayer
	return append(b, a[:]...)
}

// Parse reads p.
func (p *PortAttr) Parse(b []byte) error {
	if err := need(b, PortAttrLen); err != nil {
		return err
	}
	*p = PortAttr{
		MaxMsg:    le.Uint32(b[4:]),
		GIDTable:  le.Uint32(b[16:]),
		PkeyTable: le.Uint16(b[20:]),
		State:     b[26], MaxMTU: b[27], ActiveMTU: b[28], LMC: b[29], MaxVL: b[30],
		Width: b[34], Speed: b[35], PhysState: b[36], LinkLayer: b[37],
	}
	return nil
}

// GIDEntryLen is the size of a GIDEntry.
const GIDEntryLen = 32

// GIDEntry is the output of DeviceQueryGIDEntry: gid, then four u32.
type GIDEntry struct {
	GID         [16]byte
	Index, Port uint32
	Type        uint32
	NetDev      uint32 // 0: none
}

// Append adds e to b.
func (e *GIDEntry) Append(b []byte) []byte {
	b = append(b, e.GID[:]...)
	b = le.AppendUint32(b, e.Index)
	b = le.AppendUint32(b, e.Port)
	b = le.AppendUint32(b, e.Type)
	return le.AppendUint32(b, e.NetDev)
}

// Parse reads e.
func (e *GIDEntry) Parse(b []byte) error {
	if err := need(b, GIDEntryLen); err != nil {
		return err
	}
	*e = GIDEntry{
		GID:   [16]byte(b[:16]),
		Index: le.Uint32(b[16:]), Port: le.Uint32(b[20:]),
		Type: le.Uint32(b[24:]), NetDev: le.Uint32(b[28:]),
	}
	return nil
}
