//go:build linux

package kernel

import (
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// step is a transition of a queue pair: the attributes that it takes, and those
// that it may have, beside AttrState.
type step struct {
	from, to       abi.QPState
	required, also uint32
}

const initial = abi.AttrPkey | abi.AttrPort | abi.AttrQKey

// steps are all transitions, of both kinds of queue pair, but that AttrRNRRetry is
// of SRD alone. Besides, every state but RESET leads to ERR, and every one to RESET.
//
//	RESET --> INIT --> RTR --> RTS <--> SQD
//	                            ^------ SQE
var steps = []step{
	{abi.QPReset, abi.QPInit, initial, 0},
	{abi.QPInit, abi.QPInit, 0, initial},
	{abi.QPInit, abi.QPRTR, 0, abi.AttrPkey | abi.AttrQKey},
	{abi.QPRTR, abi.QPRTS, abi.AttrSQPSN, abi.AttrCurState | abi.AttrQKey | abi.AttrRNRRetry},
	{abi.QPRTS, abi.QPRTS, 0, abi.AttrCurState | abi.AttrQKey},
	{abi.QPRTS, abi.QPSQD, 0, abi.AttrSQDNotify},
	{abi.QPSQD, abi.QPRTS, 0, abi.AttrCurState | abi.AttrQKey},
	{abi.QPSQD, abi.QPSQD, 0, abi.AttrPkey | abi.AttrQKey},
	{abi.QPSQE, abi.QPRTS, 0, abi.AttrCurState | abi.AttrQKey},
}

// allowed reports whether a queue pair may go from one state to another with the
// attributes in mask.
func allowed(from, to abi.QPState, mask uint32, driver bool) bool {
	var s *step
	for i := range steps {
		if steps[i].from == from && steps[i].to == to {
			s = &steps[i]
		}
	}
	if to == abi.QPReset || to == abi.QPError && from != abi.QPReset {
		s = &step{}
	}
	if s == nil {
		return false
	}
	also := s.also
	if !driver {
		also &^= abi.AttrRNRRetry
	}
	return mask&s.required == s.required && mask&^(s.required|also|abi.AttrState) == 0
}

// supported are the attributes that the driver knows.
const supported = abi.AttrState | abi.AttrCurState | abi.AttrSQDNotify | abi.AttrPkey |
	abi.AttrPort | abi.AttrQKey | abi.AttrSQPSN | abi.AttrRNRRetry

// coreModify are the rules of the core.
func coreModify(m *abi.ModifyQP) unix.Errno {
	has := func(bits uint32) bool { return m.Mask&bits != 0 }
	switch {
	case has(abi.AttrPort) && m.Port != abi.PortNumber,
		has(abi.AttrCurState) && m.CurState > abi.QPError,
		has(abi.AttrState) && m.State > abi.QPError:
		return unix.EINVAL
	case has(abi.AttrQKey) && m.QKey&abi.QKeyPrivileged != 0:
		return unix.EPERM
	}
	return 0
}

func (l *call) modifyQP() unix.Errno {
	in, e := l.core(abi.ModifyQPLen)
	if e != 0 {
		return e
	}
	var m abi.ModifyQP
	_ = m.Parse(in)
	if m.Mask&^abi.AttrKnown != 0 {
		return unix.EOPNOTSUPP
	}
	o, e := l.named(m.Handle, abi.ObjectQP)
	if e != 0 {
		return e
	}
	if e := coreModify(&m); e != 0 {
		return e
	}
	if e := l.noUdata(); e != 0 {
		return e
	}
	q := o.(*qp)
	if m.Others {
		l.c.found("reserved", l.where(), "modify QP: bytes that EFA doesn't use are not 0")
	}
	from := q.state
	if m.Mask&abi.AttrCurState != 0 {
		from = m.CurState
	}
	to := from
	if m.Mask&abi.AttrState != 0 {
		to = m.State
	}
	switch {
	case m.Mask&^supported != 0:
		return unix.EOPNOTSUPP
	case m.Mask&abi.AttrCurState != 0 && (from < abi.QPRTR || from > abi.QPSQE):
		return unix.EINVAL
	case !allowed(from, to, m.Mask, q.driver):
		return unix.EINVAL
	case m.Mask&abi.AttrPkey != 0 && m.PkeyIndex != 0:
		return unix.EOPNOTSUPP
	case from != q.state: // the device knows better
		return unix.EINVAL
	case m.Mask&abi.AttrRNRRetry != 0 && !l.c.dev.cfg.Profile.RNRRetry:
		return unix.EOPNOTSUPP
	case m.Mask&abi.AttrRNRRetry != 0 && m.RNRRetry > maxRNRRetry:
		return unix.EINVAL
	}
	return q.move(to, &m)
}

// maxRNRRetry is "for ever", and the default of a queue pair.
const maxRNRRetry = 7

// move carries a transition out.
func (q *qp) move(to abi.QPState, m *abi.ModifyQP) unix.Errno {
	if m.Mask&abi.AttrQKey != 0 && m.QKey != q.qkey {
		if q.state > abi.QPInit { // others send to the old one
			return unix.EOPNOTSUPP
		}
		q.qkey = m.QKey
	}
	var err error
	switch {
	case to == abi.QPReset && q.state != abi.QPReset:
		q.eng.Reset()
		q.qkey, q.psn, q.rnrRetry = 0, 0, 0
	case to == abi.QPInit:
		q.eng.Init(q.qkey)
	case to == abi.QPRTR:
		q.eng.Init(q.qkey)
		err = q.eng.Receive()
	case to == abi.QPRTS && q.state == abi.QPRTR:
		q.rnrRetry = maxRNRRetry
		if m.Mask&abi.AttrRNRRetry != 0 {
			q.rnrRetry = m.RNRRetry
		}
		q.psn = m.SQPSN
		err = q.eng.Send(q.rnrRetry)
	case to == abi.QPError && q.state != abi.QPError:
		q.eng.Fail()
	}
	if err != nil {
		return errno(err)
	}
	q.state = to
	return 0
}

func (l *call) queryQP() unix.Errno {
	in, e := l.core(abi.QueryQPLen)
	if e != 0 {
		return e
	}
	var cmd abi.QueryQP
	_ = cmd.Parse(in)
	o, e := l.named(cmd.Handle, abi.ObjectQP)
	if e != 0 {
		return e
	}
	const known = abi.AttrState | abi.AttrPkey | abi.AttrPort | abi.AttrQKey | abi.AttrSQPSN |
		abi.AttrCaps | abi.AttrRNRRetry
	if cmd.Mask&^known != 0 {
		return unix.EOPNOTSUPP
	}
	q := o.(*qp)
	resp := abi.QueryQPResp{
		Caps: q.caps, QKey: q.qkey, SQPSN: q.psn, State: q.state, Port: abi.PortNumber, RNRRetry: q.rnrRetry,
		AllSignalled: 1, // the driver leaves it at what means that
	}
	return l.outAll(abi.InvokeCoreOut, resp.Append(nil))
}
