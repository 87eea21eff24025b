package efa

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"unsafe"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/runtime/arena"
	"github.com/efactor/efactor/runtime/shard"
	"github.com/efactor/efactor/runtime/sys"
)

// Access is what a memory region may be used for; zero means AccessSend and
// AccessRecv, so nothing that a peer may do by itself.
type Access uint8

// The access rights (FI_SEND and so on).
const (
	// AccessSend: messages and writes may come from it. Long ones are read by
	// the peer's device where both devices can, so that they are copied once.
	// For that the peer gets a key for the bytes of that message, good until it is
	// complete. A device without memory windows (EFA) has the region's key alone: there
	// the software of the peer's side sees to it that nothing else is read.
	AccessSend Access = 1 << iota
	// AccessRecv: messages and what is read may go to it.
	AccessRecv
	// AccessRemoteRead: peers may read it. Atomics that fetch need it as well.
	AccessRemoteRead
	// AccessRemoteWrite: peers may write it. All atomics but a load need it as well.
	AccessRemoteWrite

	allAccess = AccessSend | AccessRecv | AccessRemoteRead | AccessRemoteWrite
)

var accessNames = []string{"send", "recv", "remote read", "remote write"}

// String lists the rights: "send|remote read"; "none" of 0.
func (a Access) String() string {
	if a == 0 {
		return "none"
	}
	var names []string
	for i, n := range accessNames {
		if a&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	if rest := a &^ allAccess; rest != 0 {
		names = append(names, fmt.Sprintf("Access(%#x)", uint8(rest)))
	}
	return strings.Join(names, "|")
}

// rights gives what a is called by the device, and in the table of regions, which
// peers are held to. A device without windows that is to read for a message needs the
// right to read, which does not make a peer's reads legal.
func (a Access) rights(d device.Device) (dev device.Access, table mr.Access) {
	if a&AccessRemoteRead != 0 {
		dev |= device.RemoteRead
	}
	if a&(AccessRecv|AccessRemoteWrite) != 0 {
		dev |= device.LocalWrite
	}
	if a&AccessRemoteWrite != 0 {
		dev |= device.RemoteWrite
	}
	table = dev
	if a&AccessSend != 0 {
		dev |= device.Message
		table |= mr.Send
	}
	if d.Devices() == nil { // else each of them answers by itself
		i := d.Info()
		dev = dev.On(&i)
	}
	return dev, table
}

// MemoryRegion is memory that the device knows: it reaches it without a copy, and
// peers that have its Remote may use it as Access says. A plain slice works as a
// buffer everywhere too.
type MemoryRegion struct {
	dom    *Domain
	mem    []byte
	access Access
	remote Remote
	region *mr.Region

	mu      sync.Mutex
	state   regionState
	idle    bool            // no operation uses it
	err     error           // of Close
	waiting []*shard.Signal // wait in Close
}

type regionState uint8

const (
	regionOpen regionState = iota
	regionClosing
	regionClosed
)

// Alloc returns n bytes of zeroed, page-aligned memory outside the Go heap, in the
// kind of memory that the device reaches best: the recommended source of buffers.
// It lives until Close; using its bytes afterwards crashes the program. ErrNoMR
// means that the device takes no more regions, ErrNoMemory that the host, or the limit of the
// process's container, leaves less.
func (d *Domain) Alloc(n int, a Access) (_ *MemoryRegion, err error) {
	defer formed("alloc", &err)
	if n <= 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrInvalid, n)
	}
	if free, err := sys.FreeMemory(); n >= checkedAlloc && uint64(n) < 1<<50 && err == nil { // more is no size at all
		if err := room(n, free); err != nil {
			return nil, err
		}
	}
	return d.register(a, func(a device.Access) (device.MR, error) { return d.fab.dev.Alloc(n, a) })
}

// Register makes memory that the caller has known to the device, until Close: it
// is pinned, if it is Go's, and kept from the garbage collector. A device in shared
// memory does not reach it from other processes; there peers use it by emulated
// operations, which copy more than once. ErrNoMR means that the device refused: it
// takes no more regions.
func (d *Domain) Register(p []byte, a Access) (_ *MemoryRegion, err error) {
	defer formed("register", &err)
	if len(p) == 0 {
		return nil, fmt.Errorf("%w: no bytes", ErrInvalid)
	}
	m, err := d.register(a, func(a device.Access) (device.MR, error) { return d.fab.dev.Register(p, a) })
	if err == nil {
		m.pin()
	}
	return m, err
}

// RegisterDMABuf makes length bytes from offset on of the dma-buf fd, memory of another device
// such as a GPU, known to peers, for AccessRemoteRead and AccessRemoteWrite. They reach it by
// RDMA alone, so both devices must have that, and the peer's buffer must be in a memory region
// or have ProtocolConfig.MinRegister bytes; other accesses, and atomics, are refused as those
// without the right are. Bytes is nil, and no operation of this side can have its buffer there.
// fd may be closed afterwards.
// ErrNotSupported: the device is none of EFA's own (software devices, and "auto"), or the
// kernel or the exporter of fd cannot do it.
func (d *Domain) RegisterDMABuf(fd int, offset uint64, length int, a Access) (_ *MemoryRegion, err error) {
	defer formed("register dma-buf", &err)
	switch remote := AccessRemoteRead | AccessRemoteWrite; {
	case length <= 0 || fd < 0 || a == 0 || offset+uint64(length) < offset:
		return nil, fmt.Errorf("%w: %d bytes of %d with access %#x", ErrInvalid, length, fd, uint8(a))
	case a&^remote != 0:
		return nil, fmt.Errorf("%w: a dma-buf is for peers' accesses only", ErrNotSupported)
	case !d.fab.dev.Info().DMABuf:
		return nil, fmt.Errorf("%w: dma-bufs on %s", ErrNotSupported, d.fab.dev.Info().Name)
	}
	m, err := d.register(a, func(a device.Access) (device.MR, error) { return d.fab.dev.RegisterDMABuf(fd, offset, length, a) })
	if err == nil {
		m.remote.n = uint64(length)
	}
	return m, err
}

func (d *Domain) register(a Access, from func(device.Access) (device.MR, error)) (*MemoryRegion, error) {
	if a&^allAccess != 0 {
		return nil, fmt.Errorf("%w: access %#x", ErrInvalid, uint8(a))
	}
	if a == 0 {
		a = AccessSend | AccessRecv
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	rights, table := a.rights(d.fab.dev)
	var dev device.MR
	ask := func() (err error) { dev, err = from(rights); return err }
	err := device.Guard(ask)
	if errors.Is(err, device.ErrNoMemory) && d.plain.Drop() { // it has what the caller wants
		err = device.Guard(ask)
	}
	if err != nil {
		d.leave()
		return nil, fmt.Errorf("%w: %w", registerErrno(err), err)
	}
	d.fab.regions.Add(1)
	d.fab.registered.Add(1)
	m := &MemoryRegion{dom: d, mem: dev.Bytes(), access: a, region: d.regions.Add(dev, table)}
	m.region.OnIdle = m.onIdle
	m.remote = d.fab.remoteOf(m.region)
	return m, nil
}

// registerErrno is the number for a device's refusal.
func registerErrno(err error) Errno {
	switch {
	case errors.Is(err, arena.ErrSize), errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EBADF), errors.Is(err, syscall.EFAULT):
		return ErrInvalid
	case errors.Is(err, syscall.ENOMEM):
		return ErrNoMemory
	case errors.Is(err, device.ErrNoMemory):
		return ErrNoMR
	case errors.Is(err, device.ErrClosed):
		return ErrClosed
	case errors.Is(err, syscall.EMFILE):
		return 24 // FI_EMFILE
	case errors.Is(err, syscall.ENFILE):
		return 23 // FI_ENFILE
	default:
		return ErrNotSupported
	}
}

// checkedAlloc is from how many bytes on Alloc looks whether there is so much memory.
const checkedAlloc = 1 << 20

// room refuses memory that there is not: beyond what the host has available, and the limit of the process's
// memory cgroup leaves, the kernel ends processes when it is touched. An eighth stays for others.
func room(n int, free uint64) error {
	if most := free - free/8; uint64(n) > most {
		return fmt.Errorf("%w: %d bytes, of %d that the host and the memory cgroup (a container's limit) leave this process; "+
			"ask for less, or raise the limit (memory.max, docker run --memory=)", ErrNoMemory, n, most)
	}
	return nil
}

// Bytes is the memory; nil after Close, and of a dma-buf.
func (m *MemoryRegion) Bytes() []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == regionClosed {
		return nil
	}
	return m.mem
}

// Remote names the whole region, for peers. After Close it names nothing.
func (m *MemoryRegion) Remote() Remote { return m.remote }

// Export lets peers use a part of the region by a key of its own, until Unexport or Close of the
// region. On each device such memory is reached by emulated operations, which copy once more
// than RDMA, since devices draw the keys of RDMA themselves.
//
// ErrInvalid: the part is not in the region, or the rights are not its own. ErrNoKey: another
// export of the domain has that key. ErrNoMR: the domain has 4,096 of them. ErrClosed.
func (m *MemoryRegion) Export(x Export) (_ Remote, err error) {
	defer formed("export", &err)
	if x.Len == 0 && x.Off < len(m.mem) {
		x.Len = len(m.mem) - x.Off
	}
	switch remote := AccessRemoteRead | AccessRemoteWrite; {
	case x.Off < 0 || x.Len <= 0 || x.Off > len(m.mem)-x.Len:
		return Remote{}, fmt.Errorf("%w: %d bytes from %d on, in a region of %d", ErrInvalid, x.Len, x.Off, len(m.mem))
	case x.Access == 0 || x.Access&^remote != 0 || x.Access&^m.access != 0:
		return Remote{}, fmt.Errorf("%w: access %v of a region with %v", ErrInvalid, x.Access, m.access)
	case x.Key > MaxKey:
		return Remote{}, fmt.Errorf("%w: key %#x is above MaxKey", ErrInvalid, x.Key)
	}
	_, table := x.Access.rights(m.dom.fab.dev)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state != regionOpen {
		return Remote{}, fmt.Errorf("%w: a closed region", ErrClosed)
	}
	key, part := x.Key, m.mem[x.Off:x.Off+x.Len]
	for {
		if x.Key == 0 {
			key = anyKey()
		}
		switch err := m.dom.regions.Export(m.region, part, key, table); {
		case err == nil:
			return KeyRemote(key, uint64(x.Len)), nil
		case errors.Is(err, mr.ErrManyExport):
			return Remote{}, fmt.Errorf("%w: %w", ErrNoMR, err)
		case x.Key != 0:
			return Remote{}, fmt.Errorf("%w: %#x: %w", ErrNoKey, key, err)
		}
	}
}

// Export is a part of a memory region under a key of its own, in which peers count bytes from
// 0 on (FI_MR_PROV_KEY and FI_MR_VIRT_ADDR switched off, and sub-regions).
type Export struct {
	// Key is what peers call it, at most MaxKey. Programs that agree on keys need not
	// exchange any, see [KeyRemote]; but then the memory is open to all who know the number, and the
	// Export must come before the first access: a peer that names keys which are none is failed
	// after some.
	// 0: a key is drawn that nobody can guess.
	Key uint64
	// Off and Len are the bytes of the region; Len 0 means all from Off on.
	Off, Len int
	// Access is what peers may do: AccessRemoteRead and AccessRemoteWrite, which the region
	// must have, too.
	Access Access
}

// MaxKey is the highest key of an [Export].
const MaxKey = 1<<62 - 1

// Unexport ends an export of the region, of which r was returned: its key is free, and what a
// peer asks for by it from now on is refused. Operations that have begun go on. ErrNoKey: there
// is no such export.
func (m *MemoryRegion) Unexport(r Remote) (err error) {
	defer formed("unexport", &err)
	if addr, key := r.Raw(); addr&mr.ByOffset != 0 && m.dom.regions.Unexport(m.region, key) {
		return nil
	}
	return fmt.Errorf("%w: no export of the region has it", ErrNoKey)
}

// KeyRemote names n bytes of a peer's [Export] by its key, from byte 0 of it on. Slice gives
// parts of it. Nothing is looked up: an access with a key that the peer does not have, or beyond
// the bytes of the export, is refused there, as with any other Remote.
func KeyRemote(key, n uint64) Remote {
	return Remote{names: &[]remoteName{{addr: mr.ByOffset, key: key&MaxKey | mr.EmulatedOnly}}, n: n}
}

// anyKey is a key that nobody can guess, not 0.
func anyKey() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.LittleEndian.Uint64(b[:])%MaxKey + 1
}

// Close takes the region from the device and from its peers, and gives memory of
// Alloc back. Operations that the device or a peer carries out in it end, on both
// sides, if need be with an error, and so do sends and receives whose buffer lies in
// it; Close waits until they have. It is idempotent, and returns when the region is
// closed, also if another call closed it.
func (m *MemoryRegion) Close() (err error) {
	defer formed("close memory region", &err)
	m.mu.Lock()
	if m.state != regionOpen {
		m.mu.Unlock()
		return m.wait(func() bool { return m.state == regionClosed })
	}
	m.state = regionClosing
	m.mu.Unlock()

	// Each endpoint finds the region in use until it has looked for operations that
	// have it without saying so, and has made them say so.
	m.region.Use()
	m.region.Retire()
	for _, c := range m.dom.begun() {
		m.region.Share()
		c.control(func() {
			c.act.Load().Revoke(m.region)
			m.region.Done()
		})
	}
	for _, p := range m.dom.openPools() {
		m.region.Share()
		p.control(func() {
			p.act.Revoke(m.region)
			m.region.Done()
		})
	}
	m.region.Done()
	err = m.wait(func() bool { return m.idle })
	if err == nil {
		if err = m.region.Device().Close(); errors.Is(err, device.ErrClosed) {
			err = nil // the device was closed, and all its regions with it
		}
		m.unpin() // a driver that could not take the memory from its device still refers to it
		m.dom.leave()
		m.dom.fab.regions.Add(-1)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state, m.err = regionClosed, err
	setAll(m.waiting)
	return err
}

// wait returns when the condition holds, which is asked under mu.
func (m *MemoryRegion) wait(until func() bool) error {
	var sig shard.Signal
	sh := m.dom.busy()
	for {
		m.mu.Lock()
		if until() {
			err := m.err
			m.mu.Unlock()
			return err
		}
		sig.Reset()
		m.waiting = append(m.waiting, &sig)
		m.mu.Unlock()
		err := sh.Wait(context.Background(), &sig)
		m.mu.Lock()
		m.waiting = without(m.waiting, &sig)
		m.mu.Unlock()
		if err != nil {
			return fmt.Errorf("%w: memory region in use: %w", ErrClosed, err)
		}
	}
}

// onIdle: the region is retired and no operation uses it; any goroutine.
func (m *MemoryRegion) onIdle() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = true
	setAll(m.waiting)
}

// pins holds what keeps registered memory in its place. Regions that are never
// closed stay here, since a Pinner must not be collected before its Unpin.
var pins struct {
	sync.Mutex
	of map[*MemoryRegion]*runtime.Pinner
}

// pin keeps Go memory where it is. Other memory is left alone.
func (m *MemoryRegion) pin() {
	p := new(runtime.Pinner)
	p.Pin(unsafe.SliceData(m.mem))
	pins.Lock()
	defer pins.Unlock()
	if pins.of == nil {
		pins.of = make(map[*MemoryRegion]*runtime.Pinner)
	}
	pins.of[m] = p
}

func (m *MemoryRegion) unpin() {
	pins.Lock()
	defer pins.Unlock()
	if p := pins.of[m]; p != nil {
		p.Unpin()
		delete(pins.of, m)
	}
}

// Remote names memory of another process: a MemoryRegion or a part of one, for its
// peers to read, write and update. It is a small value, and opaque: it holds the
// address and the key of the memory on each device of the domain that it belongs to,
// and an operation uses those of the device that carries to the peer. The zero Remote
// names nothing.
//
// It goes to peers in its binary form (MarshalBinary). The keys in it, drawn at random,
// are all that protects the memory: a process that has them may do to the region what
// its Access allows, and a peer that guesses too often is failed. So a Remote is to be
// kept from strangers; String leaves the keys out, and there is no text form that a
// logger would write.
type Remote struct {
	names  *[]remoteName // by device; never changed
	off, n uint64        // the part: n bytes from off on
}

// remoteName is what one device calls the region.
type remoteName struct {
	gid  device.GID // of the device; zero: it is not known, and any will do
	addr uint64     // of the first byte
	key  uint64     // the device's, and perhaps mr.EmulatedOnly
}

// RawRemote names n bytes at addr by a key that something else than efactor gave, such as
// a libfabric peer's fi_mr_key, whichever device carries to the peer.
func RawRemote(addr, n, key uint64) Remote {
	return Remote{names: &[]remoteName{{addr: addr, key: key}}, n: n}
}

// Raw gives the address and the key on the domain's first device, for a peer that is not
// efactor. The highest bit of key says that the region is reached by emulated operations
// only, which the software of its side carries out; a libfabric takes no notice of it.
func (r Remote) Raw() (addr, key uint64) {
	if r.names == nil {
		return 0, 0
	}
	x := &(*r.names)[0]
	return x.addr + r.off, x.key
}

// Len is the number of bytes that r names.
func (r Remote) Len() uint64 { return r.n }

// Slice is the n bytes from offset off on, or as many of them as there are.
func (r Remote) Slice(off, n uint64) Remote {
	off = min(off, r.n)
	return Remote{names: r.names, off: r.off + off, n: min(n, r.n-off)}
}

// String gives the length, for people; the keys are a secret.
func (r Remote) String() string { return fmt.Sprintf("%d bytes of remote memory", r.n) }

// on gives what the device with a GID calls r, of which n bytes are wanted. Of a peer that
// is not known (zero) it is what any device does, since the operation is refused later.
func (r Remote) on(gid device.GID, n int) (addr, key uint64, err error) {
	if uint64(n) > r.n {
		return 0, 0, fmt.Errorf("%w: %d bytes in %v", ErrInvalid, n, r)
	}
	if r.names == nil {
		return 0, 0, nil
	}
	for i := range *r.names {
		x := &(*r.names)[i]
		if x.gid != gid && x.gid != (device.GID{}) && gid != (device.GID{}) {
			continue
		}
		if x.addr+r.off < x.addr || x.addr+r.off+r.n < x.addr {
			return 0, 0, fmt.Errorf("%w: %v at the end of the address space", ErrInvalid, r)
		}
		return x.addr + r.off, x.key, nil
	}
	return 0, 0, fmt.Errorf("%w: %v is not of the peer's device, %v", ErrInvalid, r, gid)
}

// The binary form, little-endian: version, number of names, 6 zeroes, length; then each
// name: GID, address, key.
const (
	remoteVersion = 1
	remoteHead    = 16
	remoteEach    = 32
	maxRemote     = 8 // names
)

// MaxRemote is the most bytes of a Remote's binary form.
const MaxRemote = remoteHead + maxRemote*remoteEach

// AppendBinary adds the binary form to b: 16 bytes and 32 for each device.
func (r Remote) AppendBinary(b []byte) ([]byte, error) {
	var names []remoteName
	if r.names != nil {
		names = *r.names
	}
	b = append(b, remoteVersion, byte(len(names)), 0, 0, 0, 0, 0, 0)
	b = binary.LittleEndian.AppendUint64(b, r.n)
	for i := range names {
		x := &names[i]
		b = append(b, x.gid[:]...)
		b = binary.LittleEndian.AppendUint64(b, x.addr+r.off)
		b = binary.LittleEndian.AppendUint64(b, x.key)
	}
	return b, nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (r Remote) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// UnmarshalBinary implements encoding.BinaryUnmarshaler. It takes what AppendBinary makes,
// and nothing that would reach around the end of the address space or that has two names
// for one device. After an error r is as it was.
func (r *Remote) UnmarshalBinary(b []byte) (err error) {
	defer formed("unmarshal remote", &err)
	if len(b) < remoteHead || b[0] != remoteVersion {
		return fmt.Errorf("%w: Remote of %d bytes is not of version %d", ErrInvalid, len(b), remoteVersion)
	}
	count := int(b[1])
	if count > maxRemote || len(b) != remoteHead+count*remoteEach || [6]byte(b[2:8]) != [6]byte{} {
		return fmt.Errorf("%w: Remote of %d bytes with %d names", ErrInvalid, len(b), count)
	}
	x := Remote{n: binary.LittleEndian.Uint64(b[8:])}
	if count == 0 && x.n > 0 {
		return fmt.Errorf("%w: Remote of %d bytes without a name", ErrInvalid, x.n)
	}
	names := make([]remoteName, count)
	for i := range names {
		e := b[remoteHead+i*remoteEach:]
		y := remoteName{device.GID(e[:16]), binary.LittleEndian.Uint64(e[16:]), binary.LittleEndian.Uint64(e[24:])}
		if y.addr+x.n < y.addr {
			return fmt.Errorf("%w: %v wraps around", ErrInvalid, x)
		}
		for _, o := range names[:i] {
			if o.gid == y.gid {
				return fmt.Errorf("%w: Remote with two names on one device", ErrInvalid)
			}
		}
		names[i] = y
	}
	if count > 0 {
		x.names = &names
	}
	*r = x
	return nil
}

// remoteOf names a whole region of a fabric's devices.
func (f *Fabric) remoteOf(r *mr.Region) Remote {
	names := make([]remoteName, r.Paths())
	for i := range names {
		names[i] = remoteName{f.paths[i].gid, r.Addr(uint8(i)), r.Key(uint8(i))}
	}
	return Remote{names: &names, n: uint64(len(r.Bytes()))}
}
