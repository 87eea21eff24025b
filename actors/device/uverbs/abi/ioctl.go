package abi

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
