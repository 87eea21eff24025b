package abi

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
