package script

import (
	"slices"

	"github.com/efactor/efactor/actors/device"
)

// UserQPN is the number of the queue pair that receives into the caller's buffers.
const UserQPN = 77

// userQP is that queue pair (device.QPConfig.UserRecv). What it sends, to itself alone, arrives
// at the doorbell.
type userQP struct {
	*QP    // whose methods for receive slots are not called
	qkey   uint32
	depth  int
	posted []device.RecvWR // oldest first
	rung   []device.SendWR
	comps  []device.Completion
	closed bool
}

// PostRecvInto implements device.QP.
func (u *userQP) PostRecvInto(wr *device.RecvWR) error {
	switch {
	case u.closed:
		return device.ErrClosed
	case len(u.posted) == u.depth:
		return device.ErrQueueFull
	}
	u.posted = append(u.posted, *wr)
	return nil
}

// QPN implements device.QP.
func (u *userQP) QPN() uint16 { return UserQPN }

// RecvSlots implements device.QP.
func (u *userQP) RecvSlots() int { return 0 }

// PostSend implements device.QP.
func (u *userQP) PostSend(wr *device.SendWR) error {
	if u.closed {
		return device.ErrClosed
	}
	if int(wr.AH) >= len(u.gids) || u.gids[wr.AH] != u.dev.info.GID || wr.QPN != UserQPN || wr.QKey != u.qkey {
		u.fault("the queue pair for receives sends to others")
	}
	u.rung = append(u.rung, *wr)
	return nil
}

// Doorbell implements device.QP.
func (u *userQP) Doorbell() {
	for i := range u.rung {
		wr := &u.rung[i]
		c := device.Completion{Op: device.OpSend, ID: wr.ID}
		if !u.arrive(u.dev.info.GID, UserQPN, nil, wr.HasImm, wr.Imm) {
			c.Status = device.StatusRNR
		}
		u.comps = append(u.comps, c)
	}
	u.rung = nil
}

// arrive has a packet take the receive that was posted longest; false: there is none.
func (u *userQP) arrive(gid device.GID, qpn uint16, packet []byte, hasImm bool, imm uint32) bool {
	if u.closed || len(u.posted) == 0 {
		return false
	}
	wr := u.posted[0]
	u.posted = slices.Delete(u.posted, 0, 1)
	c := device.Completion{Op: device.OpRecv, ID: wr.ID, AH: device.UnknownAH, SrcGID: gid, SrcQPN: qpn, HasImm: hasImm, Imm: imm}
	if gid == u.dev.info.GID { // the only one for which it has an address handle
		c.AH, c.SrcGID = u.ahs[gid], device.GID{}
	}
	if len(packet) > len(wr.Mem) {
		c.Status = device.StatusLocalBadLength
	} else {
		c.Len = copy(wr.Mem, packet)
	}
	u.comps = append(u.comps, c)
	return true
}

// Poll implements device.QP.
func (u *userQP) Poll(c []device.Completion) int {
	n := copy(c, u.comps)
	u.comps = u.comps[n:]
	return n
}

// Arm implements device.QP.
func (u *userQP) Arm() bool { return len(u.comps) == 0 }

// Close implements device.QP.
func (u *userQP) Close() error {
	u.closed, u.comps, u.posted = true, nil, nil
	return nil
}

// ArriveBare lets a message without headers from x arrive at the queue pair for receives; false
// if none is posted there.
func (r *Rig) ArriveBare(x *Remote, b []byte, hasImm bool, imm uint32) bool {
	return r.dev.user.arrive(x.Addr.GID(), x.Addr.QPN(), b, hasImm, imm)
}
