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
