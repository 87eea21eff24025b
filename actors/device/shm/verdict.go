package shm

// packet is what was found at a place. Unless its kind is ready there is a slot,
// but no packet in it: the words were invalid or a claim was taken back.
type packet struct {
	verdict
	slot int32
	imm  uint32
}

// verdict is the result of reading the words of a place, each read once and
// checked.
type verdict struct {
	kind   kind // idle: it cannot be
	sender int
	who    ident
	length int
	marks  word // written and withImm
}

// judge looks whether a packet has arrived at place i, and if not and deep, whether
// its post is claimed. Without deep, posted stands for both.
func (r *receiver) judge(i uint64, deep bool) verdict {
	pl := &r.places[i]
	lap := r.lap(pl.pos)
	w := word(r.cell[i].word.Load())
	if w.kind() != ready || w.lap() != lap {
		if !deep {
			return verdict{kind: posted}
		}
		w = word(r.post(i).Load())
		if w.lap() != lap || w.kind() == ready {
			return verdict{}
		}
	}
	return r.trust(pl, w)
}

// trust checks a word of this lap.
func (r *receiver) trust(pl *place, w word) verdict {
	v := verdict{kind: w.kind(), sender: w.sender(), length: w.length(), marks: w & (written | withImm)}
	if int32(w.slot()) != pl.slot || v.length > r.mtu {
		return verdict{}
	}
	if v.kind == posted {
		return v
	}
	if v.who = ident(r.senders[v.sender].who.Load()); !v.who.valid() {
		return verdict{}
	}
	return v
}
