package abi

import (
	"encoding/binary"
	"errors"
)

// IoctlVerbs is the request of every ioctl: RDMA_VERBS_IOCTL.
const IoctlVerbs = 0xc0181b01

// Identities that discovery and the header of an ioctl check.
const (
	CoreVersion   = 6      // class/infiniband_verbs/abi_version
	DriverVersion = 1      // class/infiniband_verbs/uverbsN/abi_version
	DriverEFA     = 17     // Header.Driver
	VendorAmazon  = 0x1d0f // PCI
)

// MaxIoctl is the longest header with its attributes: 4096 bytes, on every machine.
// The kernel's limit is the machine's page size, which is this or more.
const MaxIoctl = 4096

// HeaderLen is the size of a Header, without its attributes.
const HeaderLen = 24

// Header begins an ioctl.
//
//	0        2        4        6       8           16       20          24
//	+--------+--------+--------+-------+-----------+--------+-----------+
//	| length | object | method | attrs | reserved1 | driver | reserved2 |
//	+--------+--------+--------+-------+-----------+--------+-----------+
type Header struct {
	Length    uint16 // bytes: HeaderLen and AttrLen for each attribute
	Object    uint16
	Method    uint16
	Attrs     uint16 // how many follow
	Reserved1 uint64
	Driver    uint32 // DriverEFA
	Reserved2 uint32
}

// Append adds h to b.
func (h *Header) Append(b []byte) []byte {
	b = le.AppendUint16(b, h.Length)
	b = le.AppendUint16(b, h.Object)
	b = le.AppendUint16(b, h.Method)
	b = le.AppendUint16(b, h.Attrs)
	b = le.AppendUint64(b, h.Reserved1)
	b = le.AppendUint32(b, h.Driver)
	return le.AppendUint32(b, h.Reserved2)
}

// Parse reads h.
func (h *Header) Parse(b []byte) error {
	if err := need(b, HeaderLen); err != nil {
		return err
	}
	*h = Header{
		Length:    le.Uint16(b),
		Object:    le.Uint16(b[2:]),
		Method:    le.Uint16(b[4:]),
		Attrs:     le.Uint16(b[6:]),
		Reserved1: le.Uint64(b[8:]),
		Driver:    le.Uint32(b[16:]),
		Reserved2: le.Uint32(b[20:]),
	}
	return nil
}

// Whole reports whether Length matches the number of attributes.
func (h *Header) Whole() bool { return int(h.Length) == HeaderLen+int(h.Attrs)*AttrLen }

// AttrLen is the size of an Attr.
const AttrLen = 16

// Offsets in an Attr that the kernel writes to.
const (
	AttrFlagsOff = 4 // FlagOutput, when it has filled an output
	AttrDataOff  = 8 // handle or descriptor of a new object
)

// Flags of an attribute.
const (
	FlagMandatory = 1 << 0 // of the program: fail if the kernel doesn't know it
	FlagOutput    = 1 << 1 // of the kernel: output is there
)

// AttrInline is the longest input that lies in Attr.Data itself.
const AttrInline = 8

// Attr is one attribute of an ioctl.
//
//	0    2     4       6          8       16
//	+----+-----+-------+----------+-------+
//	| id | len | flags | selector | data  |
//	+----+-----+-------+----------+-------+
//
// Data is a pointer, for an output always; for an input of AttrInline bytes or less
// the input itself; or a handle or a descriptor, then Len is 0.
type Attr struct {
	ID       uint16
	Len      uint16
	Flags    uint16
	Selector uint16 // not used by EFA; 0
	Data     uint64
}

// Append adds a to b.
func (a *Attr) Append(b []byte) []byte {
	b = le.AppendUint16(b, a.ID)
	b = le.AppendUint16(b, a.Len)
	b = le.AppendUint16(b, a.Flags)
	b = le.AppendUint16(b, a.Selector)
	return le.AppendUint64(b, a.Data)
}

// Parse reads a.
func (a *Attr) Parse(b []byte) error {
	if err := need(b, AttrLen); err != nil {
		return err
	}
	*a = Attr{
		ID:       le.Uint16(b),
		Len:      le.Uint16(b[2:]),
		Flags:    le.Uint16(b[4:]),
		Selector: le.Uint16(b[6:]),
		Data:     le.Uint64(b[8:]),
	}
	return nil
}

// ParseAttrs reads the n attributes at the start of b and appends them to attrs.
func ParseAttrs(attrs []Attr, b []byte, n int) ([]Attr, error) {
	if n < 0 || n > len(b)/AttrLen {
		return attrs, ErrShort
	}
	for i := range n {
		var a Attr
		_ = a.Parse(b[i*AttrLen:])
		attrs = append(attrs, a)
	}
	return attrs, nil
}

// Objects: Header.Object.
const (
	ObjectDevice      = 0
	ObjectPD          = 1
	ObjectCompChannel = 2
	ObjectCQ          = 3
	ObjectQP          = 4
	ObjectAH          = 6
	ObjectMR          = 7
	ObjectAsyncEvent  = 16
	ObjectDMABuf      = 18 // newer than 6.1
	ObjectCompCounter = 19 // newer than 6.1
)

// Driver data of any method that has it.
const (
	AttrUHWIn  = 0x1000
	AttrUHWOut = 0x1001
)

// Methods of ObjectDevice: Header.Method.
const (
	DeviceInvokeWrite   = 0
	DeviceQueryPort     = 2
	DeviceGetContext    = 3
	DeviceQueryGIDEntry = 6
)

// Attributes of DeviceInvokeWrite.
const (
	InvokeCoreIn   = 0
	InvokeCoreOut  = 1
	InvokeWriteCmd = 2 // u64: a write command
)

// Write commands: those without a method of their own.
const (
	CmdQueryDevice   = 1
	CmdAllocPD       = 3
	CmdCreateAH      = 5
	CmdRegMR         = 9
	CmdCompChannel   = 17
	CmdQueryQP       = 25
	CmdModifyQP      = 26
	CmdExtended      = 1 << 31
	CmdQueryDeviceEx = CmdExtended | CmdQueryDevice
	CmdMask          = 0xff // of the number, beside CmdExtended
)

// Attributes of DeviceQueryPort.
const (
	QueryPortNumber = 0 // u64 that is a u8
	QueryPortResp   = 1
)

// Attributes of DeviceGetContext.
const (
	ContextCompVectors = 0 // u32 out
	ContextCoreSupport = 1 // u64 out: CoreOptionalAccess
)

// CoreOptionalAccess is a bit of ContextCoreSupport: AccessOptional is tolerated.
const CoreOptionalAccess = 1 << 0

// Attributes of DeviceQueryGIDEntry.
const (
	GIDEntryPort  = 0 // u64 that is a u32
	GIDEntryIndex = 1 // u64 that is a u32
	GIDEntryFlags = 2 // u32
	GIDEntryResp  = 3
)

// PDDestroy is the method of ObjectPD.
const PDDestroy = 0

// DestroyHandle is the attribute of every destroying method that names the object;
// those of CQs and QPs have DestroyResp, too.
const (
	DestroyHandle = 0
	DestroyResp   = 1
)

// Methods of ObjectCQ.
const (
	CQCreate  = 0
	CQDestroy = 1
)

// Attributes of CQCreate.
const (
	CreateCQHandle     = 0 // out
	CreateCQEntries    = 1 // u32
	CreateCQUserHandle = 2 // u64
	CreateCQChannel    = 3 // descriptor, optional
	CreateCQVector     = 4 // u32
	CreateCQFlags      = 5 // u32, optional
	CreateCQRespDepth  = 6 // u32 out: entries
	CreateCQAsync      = 7 // descriptor, optional
)

// Methods of ObjectQP.
const (
	QPCreate  = 0
	QPDestroy = 1
)

// Attributes of QPCreate.
const (
	CreateQPHandle     = 0  // out
	CreateQPXRCD       = 1  // not of EFA
	CreateQPPD         = 2  // handle
	CreateQPSRQ        = 3  // not of EFA
	CreateQPSendCQ     = 4  // handle
	CreateQPRecvCQ     = 5  // handle
	CreateQPIndTable   = 6  // not of EFA
	CreateQPUserHandle = 7  // u64
	CreateQPCaps       = 8  // QPCap
	CreateQPType       = 9  // u64: QPTypeDriver or QPTypeUD
	CreateQPFlags      = 10 // u32, optional: QPAllSignalled
	CreateQPSourceQPN  = 11 // not of EFA
	CreateQPAsync      = 12 // descriptor, optional
	CreateQPRespCaps   = 13 // QPCap out
	CreateQPRespNumber = 14 // u32 out
)

// AHDestroy is the method of ObjectAH.
const AHDestroy = 0

// Methods of ObjectMR.
const (
	MRDestroy   = 1
	MRRegDMABuf = 4
)

// Attributes of MRRegDMABuf.
const (
	DMABufHandle = 0 // out
	DMABufPD     = 1 // handle
	DMABufOffset = 2 // u64
	DMABufLength = 3 // u64
	DMABufIOVA   = 4 // u64
	DMABufFD     = 5 // u32: descriptor of the buffer
	DMABufAccess = 6 // u32: Access...
	DMABufLKey   = 7 // u32 out
	DMABufRKey   = 8 // u32 out
)

// AsyncEventAlloc is the method of ObjectAsyncEvent, AsyncEventFD its attribute: a
// new descriptor.
const (
	AsyncEventAlloc = 0
	AsyncEventFD    = 0
)

// ErrShort is the error of fewer bytes than the structure has.
var ErrShort = errors.New("abi: too short")

var le = binary.LittleEndian

// need reports ErrShort if b has less than n bytes.
func need(b []byte, n int) error {
	if len(b) < n {
		return ErrShort
	}
	return nil
}
