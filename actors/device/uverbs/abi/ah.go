package abi

// CreateAHLen is the size of a CreateAH.
const CreateAHLen = 56

// CreateAH is the input of CmdCreateAH. The device gets the GID alone.
//
//	0          8             16   20         24     40           44           45          46
//	+----------+-------------+----+----------+------+------------+------------+-----------+----
//	| response | user_handle | pd | reserved | dgid | flow_label | sgid_index | hop_limit | ...
//	+----------+-------------+----+----------+------+------------+------------+-----------+----
//	46: traffic_class u8, dlid u16, sl, src_path, rate, is_global, port, reserved u8 each
type CreateAH struct {
	Response     uint64 // ignored
	UserHandle   uint64
	PD           uint32 // handle
	Reserved1    uint32
	GID          [16]byte
	FlowLabel    uint32
	SGIDIndex    uint8 // 0
	HopLimit     uint8
	TrafficClass uint8
	ReservedGRH  uint8
	DLID         uint16
	SL           uint8
	SrcPath      uint8
	Rate         uint8
	IsGlobal     uint8 // 1: GID is there
	Port         uint8 // PortNumber
	Reserved2    uint8
}

// Append adds c to b.
func (c *CreateAH) Append(b []byte) []byte {
	b = le.AppendUint64(b, c.Response)
	b = le.AppendUint64(b, c.UserHandle)
	b = le.AppendUint32(b, c.PD)
	b = le.AppendUint32(b, c.Reserved1)
	b = append(b, c.GID[:]...)
	b = le.AppendUint32(b, c.FlowLabel)
	b = append(b, c.SGIDIndex, c.HopLimit, c.TrafficClass, c.ReservedGRH)
	b = le.AppendUint16(b, c.DLID)
	return append(b, c.SL, c.SrcPath, c.Rate, c.IsGlobal, c.Port, c.Reserved2)
}

// Parse reads c.
func (c *CreateAH) Parse(b []byte) error {
	if err := need(b, CreateAHLen); err != nil {
		return err
	}
	*c = CreateAH{
		Response:   le.Uint64(b),
		UserHandle: le.Uint64(b[8:]),
		PD:         le.Uint32(b[16:]),
		Reserved1:  le.Uint32(b[20:]),
		GID:        [16]byte(b[24:40]),
		FlowLabel:  le.Uint32(b[40:]),
		SGIDIndex:  b[44], HopLimit: b[45], TrafficClass: b[46], ReservedGRH: b[47],
		DLID: le.Uint16(b[48:]),
		SL:   b[50], SrcPath: b[51], Rate: b[52], IsGlobal: b[53], Port: b[54], Reserved2: b[55],
	}
	return nil
}

// CreateAHRespLen is the size of a CreateAHResp.
const CreateAHRespLen = 8

// CreateAHResp is the driver's output of CmdCreateAH; the core's is a u32, the handle.
type CreateAHResp struct {
	CompMask uint32
	Number   uint16 // what WQEs and completions say
	Reserved uint16
}

// Append adds r to b.
func (r *CreateAHResp) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.CompMask)
	b = le.AppendUint16(b, r.Number)
	return le.AppendUint16(b, r.Reserved)
}

// Parse reads r.
func (r *CreateAHResp) Parse(b []byte) error {
	if err := need(b, CreateAHRespLen); err != nil {
		return err
	}
	*r = CreateAHResp{CompMask: le.Uint32(b), Number: le.Uint16(b[4:]), Reserved: le.Uint16(b[6:])}
	return nil
}
