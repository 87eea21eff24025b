package efa

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/peer"
	"github.com/efactor/efactor/api/internal/errtext"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/wire"
)

// Addr is the handle of a peer in an address vector: an index from 0 in the order
// of insertion (FI_AV_TABLE). The lowest free one is used first.
type Addr uint64

const (
	// AnyAddr is every peer: the source of a receive that takes messages from all.
	AnyAddr = ^Addr(0)
	// NoAddr is a peer that is in no address vector: what a message came from, or what
	// Insert has refused.
	NoAddr = Addr(peer.Unlisted)
)

// What is in logs and error texts; see also Kind, Caps and the types that are aliases.

// String gives the handle as a number, "any" of AnyAddr and "none" of NoAddr.
func (a Addr) String() string {
	switch a {
	case AnyAddr:
		return "any"
	case NoAddr:
		return "none"
	default:
		return strconv.FormatUint(uint64(a), 10)
	}
}

// AddressVector maps addresses to handles. Handles are looked up without locks;
// it may be used by any number of goroutines and by all endpoints of its domain.
type AddressVector struct {
	dom   *Domain
	cfg   AddressVectorConfig
	table avTable
	age   atomic.Uint64 // of the latest insertion

	// mu guards changes of table, and what follows. The shards take it too, so
	// nobody may wait for a shard meanwhile.
	mu     sync.RWMutex
	byAddr map[RawAddr]Addr
	eps    users[*Endpoint]
}

// AddressVectorConfig says which peers an address vector takes, and by which devices its
// endpoints reach them. The zero value takes all, by the best device for each.
type AddressVectorConfig struct {
	// NoSharedMemory keeps shared memory from being used for peers of this host where the
	// Fabric is on other devices, too, as "auto" is (FI_OPT_SHARED_MEMORY_PERMITTED):
	// packets go by the first other device that reaches them. The Address of an endpoint
	// with such a vector leaves shared memory out, so that its peers take the same path.
	NoSharedMemory bool
	// LocalOnly refuses peers of other hosts, RemoteOnly those of this host (FI_LOCAL_COMM,
	// FI_REMOTE_COMM), with ErrAddrNotAvail. A peer is of this host if it is in shared memory
	// that the device reaches, or if its address has the GID of a device of the Fabric.
	LocalOnly, RemoteOnly bool
}

// allows reports whether a peer at gid may be reached by p.
func (c *AddressVectorConfig) allows(p *fabricPath, gid device.GID) bool {
	switch {
	case c.NoSharedMemory && p.scheme == sharedMemory:
		return false
	case c.LocalOnly:
		return p.isLocal(gid)
	}
	return true
}

// tells reports whether an endpoint's address names one of its n paths.
func (c *AddressVectorConfig) tells(p *fabricPath, n int) bool {
	return n == 1 || !c.NoSharedMemory || p.scheme != sharedMemory
}

// sharedMemory is the scheme of addresses in shared memory.
const sharedMemory = "shm"

// Insert adds one address and returns its handle. An address that is in the
// vector already keeps its handle. A peer that sent before its address was
// inserted is known by it from now on. Of several paths to the address that on the
// first of this fabric's devices which has one is taken, for good; without any the
// error is ErrAddrNotAvail.
func (av *AddressVector) Insert(a Address) (_ Addr, err error) {
	defer formed("insert", &err)
	return first(av.InsertAll(a))
}

// first is the outcome of an insertion of one address.
func first(hs []Addr, err error) (Addr, error) {
	if len(hs) == 0 {
		return NoAddr, err
	}
	var ie *InsertError
	if errors.As(err, &ie) {
		err = ie.Err
	}
	return hs[0], err
}

// InsertAll adds addresses in one step. Where one is refused the others are in all
// the same, its handle is one that no operation takes, and the error joins an
// [InsertError] for each.
func (av *AddressVector) InsertAll(as ...Address) ([]Addr, error) {
	return av.insert(as, nil, "")
}

// tellAll tells endpoints of new handles.
func tellAll(eps []*Endpoint, handles []Addr) {
	for _, e := range eps {
		e.inserted(handles)
	}
}

// InsertNamed is Insert, and names the peer in the same step, see SetName. A peer that is in
// the vector already gets the name instead of what it had, but for "".
func (av *AddressVector) InsertNamed(a Address, name string) (_ Addr, err error) {
	defer formed("insert", &err)
	return first(av.insert([]Address{a}, nil, name))
}

// insert gives the peers a value and a name, unless that is nil or "".
func (av *AddressVector) insert(as []Address, value any, name string) ([]Addr, error) {
	av.mu.Lock()
	handles, eps, err := av.insertLocked(as, value, name)
	av.mu.Unlock()
	tellAll(eps, handles)
	return handles, err
}

// insertLocked is insert without word to the endpoints. The caller holds mu.
func (av *AddressVector) insertLocked(as []Address, value any, name string) ([]Addr, []*Endpoint, error) {
	if av.eps.closed {
		return nil, nil, callError("insert", av.eps.refusal())
	}
	handles := make([]Addr, len(as))
	var errs []error
	for i, a := range as {
		raw, path, err := av.dom.fab.choose(a, &av.cfg)
		if err != nil {
			errs = append(errs, &InsertError{Index: i, Err: err})
			handles[i] = NoAddr
			continue
		}
		h, ok := av.byAddr[raw]
		if !ok {
			x := avEntry{raw: raw, path: uint8(path), age: av.age.Add(1), value: value, name: name}
			if len(a.paths) > 1 {
				x.all = &a
			}
			h = Addr(av.table.add(x))
			av.byAddr[raw] = h
			av.dom.fab.chose(h, name, a, path)
		} else if value != nil || name != "" {
			av.table.change(h, func(x *avEntry) {
				if value != nil {
					x.value = value
				}
				if name != "" {
					x.name = name
				}
			})
		}
		handles[i] = h
	}
	return handles, slices.Clone(av.eps.list), errtext.Join(errs...)
}

// meet is the handle of an address, which is inserted if it may be and is not there yet. fresh
// reports whether it was.
func (av *AddressVector) meet(raw RawAddr, may bool) (h Addr, fresh bool, err error) {
	av.mu.Lock()
	h, known := av.byAddr[raw]
	if known {
		av.mu.Unlock()
		return h, false, nil
	}
	if !may {
		av.mu.Unlock()
		return NoAddr, false, fmt.Errorf("%w: it was removed from the address vector after the message came", ErrNotConnected)
	}
	hs, eps, err := av.insertLocked([]Address{av.dom.fab.addressOf(raw)}, nil, "")
	av.mu.Unlock()
	tellAll(eps, hs)
	h, err = first(hs, err)
	return h, err == nil, err
}

// Remove takes a handle out. It returns when no endpoint uses it any more:
// operations in progress with the peer end with ErrCanceled. If ctx ends first
// the removal goes on by itself. A peer that is still alive and is inserted again
// resumes where it was.
func (av *AddressVector) Remove(ctx context.Context, h Addr) (err error) {
	defer formed("remove", &err)
	av.mu.Lock()
	raw, ok := av.lookup(h)
	if !ok {
		av.mu.Unlock()
		return errNoPeer(h)
	}
	av.table.remove(uint64(h))
	delete(av.byAddr, raw)
	eps := slices.Clone(av.eps.list)
	av.mu.Unlock()

	r := &removal{av: av, h: h}
	r.left.Store(int64(len(eps)) + 1)
	for _, e := range eps {
		e.removed(r)
	}
	r.done()
	for _, e := range eps {
		switch err := e.sh.Wait(ctx, &r.sig); {
		case err == nil:
			return nil
		case !errors.Is(err, shard.ErrClosed): // the others may still answer
			return contextError(ctx, err)
		}
	}
	return nil
}

// removal is a handle on its way out.
type removal struct {
	av   *AddressVector
	h    Addr
	left atomic.Int64 // endpoints that may use the handle, and Remove itself
	sig  shard.Signal
}

// done: one fewer uses the handle. Only after the last may it mean somebody else.
func (r *removal) done() {
	if r.left.Add(-1) > 0 {
		return
	}
	r.av.mu.Lock()
	r.av.table.release(uint64(r.h))
	r.av.mu.Unlock()
	r.sig.Set()
}

// Lookup returns the address of a handle, with all its paths, as it was inserted.
func (av *AddressVector) Lookup(h Addr) (_ Address, err error) {
	defer formed("lookup", &err)
	x := av.table.get(uint64(h))
	switch {
	case x.age == 0:
		return Address{}, errNoPeer(h)
	case x.all != nil:
		return *x.all, nil
	default:
		return NewAddress(av.dom.fab.paths[x.path].scheme, x.raw), nil
	}
}

// Device is the name of the device that carries to the peer with a handle.
func (av *AddressVector) Device(h Addr) (_ string, err error) {
	defer formed("lookup", &err)
	x := av.table.get(uint64(h))
	if x.age == 0 {
		return "", errNoPeer(h)
	}
	return av.dom.fab.paths[x.path].name, nil
}

// Len is the number of addresses.
func (av *AddressVector) Len() int {
	av.mu.RLock()
	defer av.mu.RUnlock()
	return len(av.byAddr)
}

// SetName says what a peer is called in errors and logs, "rank 3 on node7" for instance, in
// place of what it was called before; "": nothing but its handle. Nothing is ever looked up by
// a name, and two peers may have the same one. It is gone with the handle.
func (av *AddressVector) SetName(h Addr, name string) error {
	return av.change("set name", h, func(x *avEntry) { x.name = name })
}

func (av *AddressVector) change(op string, h Addr, f func(*avEntry)) (err error) {
	defer formed(op, &err)
	av.mu.Lock()
	defer av.mu.Unlock()
	if !av.table.change(h, f) {
		return errNoPeer(h)
	}
	return nil
}

// Name is what a peer is called; "" of a peer without a name, and of a handle that was removed
// or is none. It takes no lock and allocates nothing.
func (av *AddressVector) Name(h Addr) string { return av.table.get(uint64(h)).name }

// who gives the handle and name of the peer at an address on this fabric.
func (av *AddressVector) who(a wire.RawAddr) (handle uint64, name string, ok bool) {
	h, ok := book{av}.Handle(a)
	if !ok {
		return 0, "", false
	}
	return h, av.Name(Addr(h)), true
}

// InsertValue is Insert, and attaches a value to the peer in the same step, so that no
// message is known by the handle before it has the value. A peer that is in the vector
// already gets the value instead of what it had, but for nil.
func (av *AddressVector) InsertValue(a Address, v any) (_ Addr, err error) {
	defer formed("insert", &err)
	return first(av.insert([]Address{a}, v, ""))
}

// SetValue attaches a value to a peer (fi_av_set_user_id), in place of the one that it had;
// nil: none. It is gone with the handle.
func (av *AddressVector) SetValue(h Addr, v any) error {
	return av.change("set value", h, func(x *avEntry) { x.value = v })
}

// Value is what the application has attached to a peer: av.Value(c.From) with a completion,
// or av.Value(m.From) with a message. It is nil of a peer without a value, and of a handle
// that was removed or is none, [NoAddr] among them. It takes no lock and allocates nothing. As
// with the handle itself, a completion from before Remove may be read after the handle has
// become another peer's.
func (av *AddressVector) Value(h Addr) any {
	if x := av.table.at(uint64(h)); x != nil {
		return x.value
	}
	return nil
}

// Address exchange is the caller's business: an [Address] is one line of text. For
// programs that have nothing better, Serve and Resolve pass addresses over TCP.

// maxAddressText bounds what Resolve reads from the other side.
const maxAddressText = 4096

// Resolve asks the program that Serves at the given TCP address, and inserts the
// address that it answers.
func (av *AddressVector) Resolve(ctx context.Context, hostport string) (Addr, error) {
	a, err := ResolveAddress(ctx, hostport)
	if err != nil {
		return NoAddr, err
	}
	return av.Insert(a)
}

// ResolveAddress asks the program that Serves at the given TCP address for its endpoint's address,
// and inserts it nowhere.
func ResolveAddress(ctx context.Context, hostport string) (_ Address, err error) {
	defer formed("resolve "+hostport, &err)
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", hostport)
	if err != nil {
		return Address{}, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	text, err := io.ReadAll(io.LimitReader(c, maxAddressText))
	if err != nil {
		if ctx.Err() != nil {
			err = contextError(ctx, ctx.Err())
		}
		return Address{}, err
	}
	n := len(text)
	if n == 0 || text[n-1] != '\n' {
		return Address{}, fmt.Errorf("%w: it did not answer with an address", ErrInvalid)
	}
	return ParseAddress(string(text[:n-1]))
}

// Close fails with ErrBusy while endpoints use the vector.
func (av *AddressVector) Close() (err error) {
	defer formed("close address vector", &err)
	av.mu.Lock()
	defer av.mu.Unlock()
	if n := len(av.eps.list); n > 0 {
		return fmt.Errorf("%w: %d endpoints use the address vector", ErrBusy, n)
	}
	av.eps.closed = true
	return nil
}

func (av *AddressVector) lookup(h Addr) (RawAddr, bool) {
	x := av.table.get(uint64(h))
	return x.raw, x.age != 0
}

// gid is the GID of the peer's device; zero of a handle that is not in use.
func (av *AddressVector) gid(h uint64) device.GID {
	x := av.table.get(h)
	return x.raw.GID()
}

func errNoPeer(h Addr) error { return fmt.Errorf("%w: no peer has the handle %d", ErrInvalid, h) }

// avEntry is an address and when it was inserted, counted from 1. Entries are
// never changed.
type avEntry struct {
	raw     RawAddr // of the path that was chosen
	age     uint64
	all     *Address // as it was inserted, if it has more paths than that
	path    uint8    // of Fabric.paths
	leaving bool     // removed, but not all endpoints have been told; age is 0
	value   any      // of the application's
	name    string   // what errors and logs call the peer, or ""
}

// pageSize is how many handles a page has.
const pageSize = 256

type avPage [pageSize]atomic.Pointer[avEntry]

// avTable is the entries by handle, read without a lock. One goroutine at a time
// writes.
type avTable struct {
	pages atomic.Pointer[[]*avPage]
	n     uint64 // handles that were ever used

	free   []uint64 // bitmap of handles below n that may be used again
	lowest int      // no word before this one has a bit
}

func (t *avTable) init() { t.pages.Store(new([]*avPage)) }

// at is the entry of a handle, nil if there is none.
func (t *avTable) at(h uint64) *avEntry {
	pages := *t.pages.Load()
	if h/pageSize >= uint64(len(pages)) {
		return nil
	}
	return pages[h/pageSize][h%pageSize].Load()
}

// get is a copy of the entry of a handle; its age is 0 if the handle is not in use.
func (t *avTable) get(h uint64) avEntry {
	if x := t.at(h); x != nil {
		return *x
	}
	return avEntry{}
}

// holds reports whether a handle is in use: get without the copy.
func (t *avTable) holds(h uint64) bool {
	x := t.at(h)
	return x != nil && x != leaving
}

// change changes the entry of a handle, and reports whether that is in use.
func (t *avTable) change(h Addr, f func(*avEntry)) bool {
	x := t.get(uint64(h))
	if x.age == 0 {
		return false
	}
	f(&x)
	t.put(uint64(h), &x)
	return true
}

// add puts an entry at the lowest free handle.
func (t *avTable) add(x avEntry) uint64 {
	h, again := t.takeFree()
	if !again {
		h = t.n
		t.n++
	}
	pages := *t.pages.Load()
	if h/pageSize == uint64(len(pages)) {
		pages = append(pages, new(avPage))
		t.pages.Store(&pages)
	}
	t.put(h, &x)
	return h
}

var leaving = &avEntry{leaving: true}

// remove takes an entry out. Its handle is not used again before release.
func (t *avTable) remove(h uint64) { t.put(h, leaving) }

func (t *avTable) put(h uint64, x *avEntry) {
	(*t.pages.Load())[h/pageSize][h%pageSize].Store(x)
}

// release makes a handle free.
func (t *avTable) release(h uint64) {
	t.put(h, nil)
	w := int(h / 64)
	for w >= len(t.free) {
		t.free = append(t.free, 0)
	}
	t.free[w] |= 1 << (h % 64)
	t.lowest = min(t.lowest, w)
}

func (t *avTable) takeFree() (uint64, bool) {
	for ; t.lowest < len(t.free); t.lowest++ {
		if w := t.free[t.lowest]; w != 0 {
			t.free[t.lowest] = w & (w - 1)
			return uint64(t.lowest*64 + bits.TrailingZeros64(w)), true
		}
	}
	return 0, false
}

// news is the handles that were inserted and that the shard has not heard of yet. It hears of
// them by a request, which comes too late for a turn that has looked for requests already, and
// then takes up a packet that was sent after Insert had returned. So the shard looks here, too,
// before it says that a packet is of nobody in the address vector.
type news struct {
	any     atomic.Bool
	mu      sync.Mutex
	handles []Addr
}

func (n *news) add(hs []Addr) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handles = append(n.handles, hs...)
	n.any.Store(true)
}

func (n *news) take() []Addr {
	n.mu.Lock()
	defer n.mu.Unlock()
	hs := n.handles
	n.handles = nil
	n.any.Store(false)
	return hs
}

// book is the vector as an endpoint sees it (endpoint.AddressBook).
type book struct{ av *AddressVector }

func (b book) Address(h uint64) (wire.RawAddr, error) {
	switch x := b.av.table.get(h); {
	case x.leaving:
		return wire.RawAddr{}, peer.ErrRemoved
	case x.age == 0:
		return wire.RawAddr{}, errNoPeer(Addr(h))
	default:
		return x.raw, nil
	}
}

func (b book) Name(h uint64) string { return b.av.Name(Addr(h)) }

func (b book) Age(h uint64) uint64 { return b.av.table.get(h).age }

func (b book) Now() uint64 { return b.av.age.Load() }

func (b book) Handle(a wire.RawAddr) (uint64, bool) {
	b.av.mu.RLock()
	defer b.av.mu.RUnlock()
	h, ok := b.av.byAddr[a]
	return uint64(h), ok
}
