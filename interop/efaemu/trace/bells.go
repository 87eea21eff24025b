//go:build linux

package trace

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"unsafe"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
)

// bell is a doorbell of a queue.
type bell struct {
	owner, what string
	word        *uint32
	last        uint32
	show        func(f *file, entry []byte) string // nil: it rings for no entries
	ring        []byte
	size        int // of an entry
}

// at is n bytes of the device file, nil if they are not in it.
func (f *file) at(key, off, n uint64) []byte {
	if all := uint64(len(f.mem)); key > all || off > all-key || n > all-key-off {
		return nil
	}
	return f.mem[key+off:][:n:n]
}

// addBell watches a doorbell.
func (f *file) addBell(b bell, key uint64, off uint32) {
	if m := f.at(key, uint64(off), 4); m != nil && off%4 == 0 {
		b.word = (*uint32)(unsafe.Pointer(&m[0]))
		f.bells = append(f.bells, &b)
	}
}

func (f *file) madeCQ(c *ioctl) {
	s := f.names.make("cq", abi.ObjectCQ, c.number())
	var r abi.CreateCQResp
	_ = r.Parse(c.out(abi.AttrUHWOut, abi.CreateCQRespLen))
	f.parts[r.Key] = s + " ring"
	if r.CompMask&abi.CQHasDoorbell != 0 {
		f.parts[r.DoorbellKey] = s + " doorbell"
		f.addBell(bell{owner: s, what: "bell"}, r.DoorbellKey, r.DoorbellOff)
	}
}

func (f *file) madeQP(c *ioctl) {
	s := f.names.make("qp", abi.ObjectQP, c.number())
	f.names.qpns[uint16(le.Uint32(c.out(abi.CreateQPRespNumber, 4)))] = s
	var caps abi.QPCap
	var in abi.CreateQP
	var r abi.CreateQPResp
	_ = caps.Parse(c.out(abi.CreateQPCaps, abi.QPCapLen))
	_ = in.Parse(c.out(abi.AttrUHWIn, abi.CreateQPLen))
	_ = r.Parse(c.out(abi.AttrUHWOut, abi.CreateQPRespLen))
	f.parts[r.LLQKey], f.parts[r.SQDoorbellKey] = s+" LLQ", s+" send doorbell"
	f.parts[r.RQKey], f.parts[r.RQDoorbellKey] = s+" RQ ring", s+" receive doorbell"
	entries := roundUp(max(caps.MaxSendWR, f.least))
	send := bell{owner: s, what: "send bell", size: abi.WQELen, ring: f.at(r.LLQKey, uint64(r.LLQOff), uint64(in.SQSize))}
	if in.SQSize == entries*abi.WideWQELen {
		send.size = abi.WideWQELen
	}
	send.show = func(f *file, b []byte) string { return f.names.wqe(b, len(send.ring)/send.size) }
	receive := bell{owner: s, what: "receive bell", size: abi.RxDescLen, ring: f.at(r.RQKey, 0, uint64(in.RQSize))}
	receive.show = func(f *file, b []byte) string { return f.names.receive(b, len(receive.ring)/abi.RxDescLen) }
	f.addBell(send, r.SQDoorbellKey, r.SQDoorbellOff)
	if len(receive.ring) > 0 {
		f.addBell(receive, r.RQDoorbellKey, r.RQDoorbellOff)
	}
}

// roundUp is the power of two that is n or the next above it.
func roundUp(n uint32) uint32 { return 1 << (bits.Len32(max(n, 1)-1) & 31) }

// look notes a new value, and the entries that it gives to the device.
func (b *bell) look(f *file) {
	w := atomic.LoadUint32(b.word)
	if w == b.last {
		return
	}
	was := b.last
	b.last = w
	if b.show == nil {
		d := abi.ParseCQDoorbell(w)
		f.line("%s %s %d, event %d, arm %t%s", b.owner, b.what, d.Consumed, d.CmdSN, d.Arm, rest(d.Reserved))
		return
	}
	pc, reserved := abi.ParseWorkDoorbell(w)
	f.line("%s %s %d%s", b.owner, b.what, pc, rest(reserved))
	entries := len(b.ring) / b.size
	if entries == 0 || int(pc-uint16(was)) > entries {
		return
	}
	for n := uint16(was); n != pc; n++ {
		at := int(n) % entries * b.size
		f.line("  %s", b.show(f, b.ring[at:at+b.size]))
	}
}

func rest(reserved bool) string {
	if reserved {
		return ", other bits"
	}
	return ""
}

// request is the symbol of a request's id: its number in a queue of n, and behind "/" what
// the driver has put into the bits above that.
func request(id uint16, n int) string {
	mask := uint16(roundUp(uint32(n)) - 1)
	if tag := id &^ mask; tag != 0 {
		return fmt.Sprintf("r%d/%#x", id&mask, tag/(mask+1))
	}
	return fmt.Sprintf("r%d", id)
}

// wqe shows a WQE of a queue of n.
func (n *names) wqe(b []byte, entries int) string {
	var w abi.WQE
	_ = w.Parse(b)
	symbols := []symbol{
		{0, 2, request(le.Uint16(b), entries)}, {4, 2, of(n.qpns, w.DestQPN)}, {12, 2, of(n.ahns, w.AH)},
	}
	at := 32
	if w.Op == abi.WorkRead || w.Op == abi.WorkWrite {
		symbols = append(symbols, symbol{at + 4, 4, of(n.rkeys, w.Remote.RKey)}, symbol{at + 8, 8, n.address(w.Remote.Addr)})
		at += 16
	}
	if !w.Inline {
		for i := range min(int(w.Length), abi.MaxSendSGE) {
			if at+16 > len(b) {
				break
			}
			symbols = append(symbols, symbol{at + 4, 4, of(n.keys, le.Uint32(b[at+4:]))}, symbol{at + 8, 8, n.address(w.SGE[i].Addr)})
			at += 16
		}
	}
	return fmt.Sprintf("%s | %s", dump(b[:32], upTo(symbols, 0, 32)...), dump(b[32:], upTo(symbols, 32, len(b))...))
}

// upTo are the symbols in a part, which begins at from.
func upTo(all []symbol, from, to int) (part []symbol) {
	for _, s := range all {
		if s.at >= from && s.at < to {
			part = append(part, symbol{s.at - from, s.n, s.text})
		}
	}
	return part
}

// receive shows a receive descriptor of a queue of n.
func (n *names) receive(b []byte, entries int) string {
	var d abi.RxDesc
	_ = d.Parse(b)
	return dump(b, symbol{0, 8, n.address(d.Addr)}, symbol{8, 2, request(d.ReqID, entries)}, symbol{12, 3, of(n.keys, d.LKey)})
}
