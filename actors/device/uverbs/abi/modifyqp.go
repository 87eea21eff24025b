package abi

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
