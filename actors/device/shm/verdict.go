package shm

// packet is what was found at a place. Unless its kind is ready there is a slot,
// but no packet in it: the words were invalid or a claim was taken back.
type packet struct {
	verdict
	slot int32
	imm  uint32 // if the packet has one
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
	w := word(pl.cell.word.Load())
	if !w.is(ready, lap) {
		if !deep {
			return verdict{w: word(posted)}
		}
		w = word(pl.post.Load())
		if w.lap() != lap || w.kind() == ready {
			return verdict{}
		}
	}
	return r.trust(pl, w)
}

// trust checks a word of this lap.
func (r *receiver) trust(pl *place, w word) verdict {
	who := r.whose(w)
	if !r.fits(pl, w) || who == 0 && w.kind() != posted {
		return verdict{}
	}
	return verdict{w, who}
}

// fits reports whether w can be of the post at a place.
func (r *receiver) fits(pl *place, w word) bool {
	return w.slot() == pl.want.slot() && w.length() <= r.mtu
}

// whose is the queue pair behind a word that a sender wrote; 0 if it names none.
func (r *receiver) whose(w word) ident {
	if who := ident(r.senders[w.sender()].who.Load()); who.valid() {
		return who
	}
	return 0
}
