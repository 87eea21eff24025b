package script

import (
	"fmt"
	"strings"

	"github.com/efactor/efactor/wire"
)

// iov reads a list of memory.
func (w *words) iov(name string, to *[wire.MaxIOV]wire.RMAIOV) uint32 {
	if w.vals[name] == "" {
		return 0
	}
	n := uint32(0)
	for f := range strings.SplitSeq(w.vals[name], ",") {
		if n == wire.MaxIOV {
			w.fail(fmt.Errorf("%s: more than %d", name, wire.MaxIOV))
			break
		}
		e, err := w.piece(f)
		w.fail(err)
		to[n] = e
		n++
	}
	return n
}

func (w *words) piece(f string) (e wire.RMAIOV, err error) {
	if strings.Contains(f, "@") {
		_, err = fmt.Sscanf(f, "0x%x+%d@%d", &e.Addr, &e.Len, &e.Key)
		return e, err
	}
	var off, n uint64
	name, rest, _ := strings.Cut(f, "+")
	if _, err = fmt.Sscanf(rest, "%d:%d", &off, &n); err != nil || w.rig == nil {
		return e, fmt.Errorf("script: memory %s: %w", f, err)
	}
	return w.rig.place(name, off, n)
}

// Place finds the memory that a text names: NAME+OFFSET:BYTES, or 0xADDR+BYTES@KEY.
func (r *Rig) Place(text string) (wire.RMAIOV, error) { return (&words{rig: r}).piece(text) }

// lastNum is a number of the latest packet that went out with the field: "$send_id".
func (w *words) lastNum(v string) string {
	if name, ok := strings.CutPrefix(v, "$"); ok && w.rig != nil {
		return w.rig.last[name]
	}
	return v
}

func (w *words) fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

// atomic reads the datatype and operation, by name or number.
func (w *words) atomic() (wire.Datatype, wire.AtomicOp) {
	d, err := Datatype(w.vals["atomic_datatype"])
	if err != nil {
		d = wire.Datatype(w.num("atomic_datatype"))
	}
	op, err := AtomicOp(w.vals["atomic_op"])
	if err != nil {
		op = wire.AtomicOp(w.num("atomic_op"))
	}
	return d, op
}

// operands are an atomic's values: value=1,2 compare=3,4.
func (w *words) operands() []byte {
	if !w.has("value") && !w.has("compare") {
		return nil
	}
	d, _ := w.atomic()
	a, err := ParseValues(d, w.vals["value"])
	w.fail(err)
	b, err := ParseValues(d, w.vals["compare"])
	w.fail(err)
	return append(a, b...)
}

func (w *words) refKind() wire.RefKind {
	for k := wire.RefOpe; k <= wire.RefMsgIDSkip; k++ {
		if k.String() == w.vals["ref_kind"] {
			return k
		}
	}
	return wire.RefKind(w.num("ref_kind"))
}

// peerError is a PEER_ERROR of 20 bytes if it has a ref_kind, of 28 if it has op_id_valid, else of 24.
func (w *words) peerError(connID uint32) *wire.PeerError {
	e := &wire.PeerError{
		HasConnID: true, ConnID: connID, MsgID: uint32(w.num("msg_id")), OpID: uint32(w.or("op_id", uint64(wire.NoOpID))),
		ProvErrno: uint32(w.or("prov_errno", 4127)),
	}
	switch v := w.vals["emitter"]; v {
	case "txe", "":
		e.Emitter = wire.EmitterTX
	case "rxe":
		e.Emitter = wire.EmitterRX
	default:
		e.Emitter = wire.Emitter(w.num("emitter"))
	}
	switch {
	case w.has("ref_kind"):
		e.Form, e.RefKind, e.Emitter = wire.PeerErrorForm20, w.refKind(), 0
	case w.has("op_id_valid"):
		if e.Form = wire.PeerErrorForm28; w.num("op_id_valid") == 0 {
			e.OpID = wire.NoOpID
		}
	}
	return e
}
