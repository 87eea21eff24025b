package abi

// AllocPDRespLen is the size of an AllocPDResp.
const AllocPDRespLen = 8

// AllocPDResp is the driver's output of CmdAllocPD; the core's is a u32, the handle.
type AllocPDResp struct {
	CompMask uint32
	Number   uint16 // for information: nothing takes it
	Reserved uint16
}

// Append adds r to b.
func (r *AllocPDResp) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.CompMask)
	b = le.AppendUint16(b, r.Number)
	return le.AppendUint16(b, r.Reserved)
}

// Parse reads r.
func (r *AllocPDResp) Parse(b []byte) error {
	if err := need(b, AllocPDRespLen); err != nil {
		return err
	}
	*r = AllocPDResp{CompMask: le.Uint32(b), Number: le.Uint16(b[4:]), Reserved: le.Uint16(b[6:])}
	return nil
}

// Rights of a memory region. Sending from it needs none; AccessRemoteWrite needs
// AccessLocalWrite. EFA knows those up to AccessRemoteRead and ignores
// AccessOptional.
const (
	AccessLocalWrite   = 1 << 0
	AccessRemoteWrite  = 1 << 1 // newer than 6.1
	AccessRemoteRead   = 1 << 2
	AccessRemoteAtomic = 1 << 3
	AccessOnDemand     = 1 << 6
	AccessCoreKnown    = 1<<8 - 1          // what the core lets through to the driver
	AccessOptional     = 0x3ff << 20       // with CoreOptionalAccess
	LKeyMask           = uint32(1)<<24 - 1 // what a descriptor has of an lkey
)

// RegMRLen is the size of a RegMR.
const RegMRLen = 40

// RegMR is the input of CmdRegMR: three u64 at 8, the handle of the PD at 32, access
// at 36. Start and IOVA agree in their offset in a page.
type RegMR struct {
	Response uint64 // ignored
	Start    uint64 // virtual address
	Length   uint64
	IOVA     uint64 // what requests call the first byte; take Start
	PD       uint32 // handle
	Access   uint32
}

// Append adds r to b.
func (r *RegMR) Append(b []byte) []byte {
	b = le.AppendUint64(b, r.Response)
	b = le.AppendUint64(b, r.Start)
	b = le.AppendUint64(b, r.Length)
	b = le.AppendUint64(b, r.IOVA)
	b = le.AppendUint32(b, r.PD)
	return le.AppendUint32(b, r.Access)
}

// Parse reads r.
func (r *RegMR) Parse(b []byte) error {
	if err := need(b, RegMRLen); err != nil {
		return err
	}
	*r = RegMR{
		Response: le.Uint64(b),
		Start:    le.Uint64(b[8:]),
		Length:   le.Uint64(b[16:]),
		IOVA:     le.Uint64(b[24:]),
		PD:       le.Uint32(b[32:]),
		Access:   le.Uint32(b[36:]),
	}
	return nil
}

// RegMRRespLen is the size of a RegMRResp.
const RegMRRespLen = 12

// RegMRResp is the output of CmdRegMR: three u32.
type RegMRResp struct{ Handle, LKey, RKey uint32 }

// Append adds r to b.
func (r *RegMRResp) Append(b []byte) []byte {
	b = le.AppendUint32(b, r.Handle)
	b = le.AppendUint32(b, r.LKey)
	return le.AppendUint32(b, r.RKey)
}

// Parse reads r.
func (r *RegMRResp) Parse(b []byte) error {
	if err := need(b, RegMRRespLen); err != nil {
		return err
	}
	*r = RegMRResp{Handle: le.Uint32(b), LKey: le.Uint32(b[4:]), RKey: le.Uint32(b[8:])}
	return nil
}
