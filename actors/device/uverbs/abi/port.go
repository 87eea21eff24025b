package abi

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
