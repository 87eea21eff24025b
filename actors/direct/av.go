package direct

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// places is the addresses of the address vector: by handle, for what leaves, and by queue
// pair, for what comes. There is an address handle for each of them from the insertion on,
// since a completion names its sender by that.
type places struct {
	qp       device.QP
	book     Book
	news     func() // Config.News
	byHandle []*remote
	at       map[place]*remote // the latest insertion
	handles  []addressHandle   // by AH
}

// addressHandle is one of the device's, and how many of the endpoints have it.
type addressHandle struct {
	gid device.GID
	n   int
}

// place is a queue pair.
type place struct {
	gid device.GID
	qpn uint16
}

// remote is an endpoint in the address vector.
type remote struct {
	handle uint64
	age    uint64
	addr   wire.RawAddr
	ah     device.AH
	out    int     // requests that the device has
	left   bool    // taken out of the address vector
	former *remote // at the same place, inserted earlier
}

func (x *remote) place() place { return place{x.addr.GID(), x.addr.QPN()} }

// start learns all that is in the address vector.
func (d *places) start(qp device.QP, book Book, news func()) {
	d.qp, d.book, d.news, d.at = qp, book, news, make(map[place]*remote)
	for h := range book.Now() { // no handle is above the number of insertions
		d.learn(h)
	}
}

// learn takes a handle in if it is one. What the device refuses is tried again with the
// first operation.
func (d *places) learn(handle uint64) {
	if _, err := d.book.Address(handle); err == nil {
		_, _ = d.remote(handle)
	}
}

// remote returns the endpoint of a handle.
func (d *places) remote(handle uint64) (*remote, error) {
	if handle < uint64(len(d.byHandle)) && d.byHandle[handle] != nil {
		return d.byHandle[handle], nil
	}
	addr, err := d.book.Address(handle)
	if err != nil {
		return nil, err
	}
	ah, err := d.qp.CreateAH(addr.GID())
	if err != nil {
		return nil, fmt.Errorf("%w: address handle for %s: %w", errno.ErrHostUnreach, addr, err)
	}
	x := &remote{handle: handle, age: d.book.Age(handle), addr: addr, ah: ah}
	for uint64(len(d.byHandle)) <= handle {
		d.byHandle = append(d.byHandle, nil)
	}
	d.byHandle[handle] = x
	for int(ah) >= len(d.handles) {
		d.handles = append(d.handles, addressHandle{})
	}
	d.handles[ah].gid = addr.GID()
	d.handles[ah].n++
	d.enter(x)
	return x, nil
}

// enter puts an endpoint before those at its place that were inserted earlier.
func (d *places) enter(x *remote) {
	later := d.at[x.place()]
	if later == nil || later.age < x.age {
		x.former = later
		d.at[x.place()] = x
		return
	}
	for later.former != nil && later.former.age > x.age {
		later = later.former
	}
	x.former, later.former = later.former, x
}

// remove takes a handle out and returns its endpoint, nil if there is none.
func (d *places) remove(handle uint64) *remote {
	if handle >= uint64(len(d.byHandle)) || d.byHandle[handle] == nil {
		return nil
	}
	x := d.byHandle[handle]
	d.byHandle[handle], x.left = nil, true
	now := d.at[x.place()]
	for now != nil && now.left {
		now = now.former
	}
	if d.at[x.place()] = now; now == nil {
		delete(d.at, x.place())
	}
	d.drop(x)
	return x
}

// drop gives the address handle of an endpoint up that has left, when nothing to it is with
// the device any more.
func (d *places) drop(x *remote) {
	if !x.left || x.out > 0 {
		return
	}
	_ = d.qp.DestroyAH(x.ah) // it was created by us, so this does not fail
	if h := &d.handles[x.ah]; h.n > 1 {
		h.n--
	} else {
		*h = addressHandle{} // the device may give the number to another GID
	}
}

// gid is what the device calls ah, or else gid.
func (d *places) gid(ah device.AH, gid device.GID) device.GID {
	if int(ah) < len(d.handles) {
		return d.handles[ah].gid
	}
	return gid
}

// find returns the endpoint at a queue pair, as a completion names it, or nil.
func (d *places) find(ah device.AH, qpn uint16, gid device.GID) *remote {
	return d.at[place{d.gid(ah, gid), qpn}]
}

// source is who a completion is of: of a queue pair in no address vector the device knows
// the place, or at least the number.
func (d *places) source(ah device.AH, qpn uint16, gid device.GID) (handle uint64, from *wire.RawAddr) {
	x := d.find(ah, qpn, gid)
	if x == nil {
		d.news()
		x = d.find(ah, qpn, gid)
	}
	if x != nil {
		return x.handle, &x.addr
	}
	addr := wire.MakeRawAddr(d.gid(ah, gid), qpn, 0)
	return peer.Unlisted, &addr
}
