package direct

import (
	"fmt"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/wire"
)

// directory is the addresses of the address vector: by handle, for what leaves, and by queue
// pair, for what comes. There is an address handle for each of them from the insertion on,
// since a completion names its sender by that.
type directory struct {
	qp       device.QP
	book     Book
	news     func() // Config.News
	byHandle []*remote
	byAddr   map[qpAddr]*remote // the latest insertion
	handles  []addressHandle    // by AH
}

// addressHandle is one of the device's, and how many of the endpoints have it.
type addressHandle struct {
	gid device.GID
	n   int
}

// qpAddr is a queue pair.
type qpAddr struct {
	gid device.GID
	qpn uint16
}

// remote is an endpoint in the address vector.
type remote struct {
	handle   uint64
	age      uint64
	addr     wire.RawAddr
	ah       device.AH
	inFlight int     // requests that the device has
	left     bool    // taken out of the address vector
	earlier  *remote // at the same queue pair, inserted earlier
}

func (x *remote) qpAddr() qpAddr { return qpAddr{x.addr.GID(), x.addr.QPN()} }

// start learns all that is in the address vector.
func (d *directory) start(qp device.QP, book Book, news func()) {
	d.qp, d.book, d.news, d.byAddr = qp, book, news, make(map[qpAddr]*remote)
	for h := range book.Now() { // no handle is above the number of insertions
		d.learn(h)
	}
}

// learn takes a handle in if it is one. What the device refuses is tried again with the
// first operation.
func (d *directory) learn(handle uint64) {
	if _, err := d.book.Address(handle); err == nil {
		_, _ = d.remote(handle)
	}
}

// remote returns the endpoint of a handle.
func (d *directory) remote(handle uint64) (*remote, error) {
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
	d.add(x)
	return x, nil
}

// add puts an endpoint before those at its queue pair that were inserted earlier.
func (d *directory) add(x *remote) {
	later := d.byAddr[x.qpAddr()]
	if later == nil || later.age < x.age {
		x.earlier = later
		d.byAddr[x.qpAddr()] = x
		return
	}
	for later.earlier != nil && later.earlier.age > x.age {
		later = later.earlier
	}
	x.earlier, later.earlier = later.earlier, x
}

// remove takes a handle out and returns its endpoint, nil if there is none.
func (d *directory) remove(handle uint64) *remote {
	if handle >= uint64(len(d.byHandle)) || d.byHandle[handle] == nil {
		return nil
	}
	x := d.byHandle[handle]
	d.byHandle[handle], x.left = nil, true
	now := d.byAddr[x.qpAddr()]
	for now != nil && now.left {
		now = now.earlier
	}
	if d.byAddr[x.qpAddr()] = now; now == nil {
		delete(d.byAddr, x.qpAddr())
	}
	d.drop(x)
	return x
}

// drop gives the address handle of an endpoint up that has left, when nothing to it is with
// the device any more.
func (d *directory) drop(x *remote) {
	if !x.left || x.inFlight > 0 {
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
func (d *directory) gid(ah device.AH, gid device.GID) device.GID {
	if int(ah) < len(d.handles) {
		return d.handles[ah].gid
	}
	return gid
}

// find returns the endpoint at a queue pair, as a completion names it, or nil.
func (d *directory) find(ah device.AH, qpn uint16, gid device.GID) *remote {
	return d.byAddr[qpAddr{d.gid(ah, gid), qpn}]
}

// source is the sender that a completion names. Of a queue pair in no address vector the device
// knows the address, or at least the number.
func (d *directory) source(ah device.AH, qpn uint16, gid device.GID) (handle uint64, from *wire.RawAddr) {
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
