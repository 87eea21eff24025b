package shm

// packet is what was found at a place. Unless its kind is ready there is a slot,
// but no packet in it: the words were invalid or a claim was taken back.
type packet struct {
	verdict
	slot int32
	imm  uint32
}

// verdict is the result of reading the words of a place, each read once and
// checked: what the cell or the post says, 0 if that cannot be, and the sender that it names.
type verdict struct {
	w   word
	who ident
}

// judge looks whether a packet has arrived at place i, and if not and deep, whether
// its post is claimed. Without deep, posted stands for both.
func (r *receiver) judge(i uint64, deep bool) verdict {
	pl := &r.places[i]
	lap := r.lap(pl.pos)
	w := word(r.cell[i].word.Load())
	if !w.is(ready, lap) {
		if !deep {
			return verdict{w: word(posted)}
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
	if int32(w.slot()) != pl.slot || w.length() > r.mtu {
		return verdict{}
	}
	if w.kind() == posted {
		return verdict{w: w}
	}
	if who := ident(r.senders[w.sender()].who.Load()); who.valid() {
		return verdict{w, who}
	}
	return verdict{}
}
