package devicetest

import (
	"encoding/binary"
	"fmt"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

var rdmaLoadCases = []testCase{
	{name: "RDMA/besideMessages", devices: 3, run: (*world).rdmaBeside, needs: (*Fabric).rdma},
	{name: "RDMA/manyReaders", devices: 4, run: (*world).rdmaReaders, needs: (*Fabric).reads},
}

// mixer writes to its part of the other side's region, reads it back, and sends a
// message that describes the contents; the other side checks them, and answers. For
// a device without one of the two operations it leaves that out.
type mixer struct {
	*node
	host     *keeper
	to       device.AH
	off      int
	src, dst own
	round    int
	waits    uint64 // request whose completion is awaited
	next     func() error
}

const mixRounds, mixSize = 60, 5000

func (m *mixer) finished() bool { return m.round == mixRounds }
func (m *mixer) String() string { return fmt.Sprintf("%d of %d rounds", m.round, mixRounds) }

func (m *mixer) step() error {
	for _, c := range m.comps[:m.Poll(m.comps[:])] {
		if err := m.take(&c); err != nil {
			return err
		}
	}
	st, done := m.sends[m.waits]
	switch {
	case m.waits != 0 && !done || m.finished():
		return nil
	case m.waits != 0 && st != device.StatusOK:
		return fmt.Errorf("request %d: %v", m.waits, st)
	}
	return m.next()
}

func (m *mixer) tag() uint64 { return uint64(m.off)<<32 | uint64(m.round) }

func (m *mixer) start(wr *device.SendWR, next func() error) error {
	m.waits, m.next = wr.ID, next
	err := m.PostSend(wr)
	m.Doorbell()
	return err
}

func (m *mixer) write() error {
	if !m.w.f.writes() {
		return m.read()
	}
	fill(m.src.b, m.tag())
	return m.start(m.rdma(device.WRWrite, m.to, m.host.node, m.src, m.host.mr, m.off), m.read)
}

func (m *mixer) read() error {
	if !m.w.f.reads() {
		return m.tell()
	}
	return m.start(m.rdma(device.WRRead, m.to, m.host.node, m.dst, m.host.mr, m.off), m.tell)
}

func (m *mixer) tell() error {
	msg := binary.LittleEndian.AppendUint64(nil, uint64(m.off))
	if m.w.f.writes() {
		msg = binary.LittleEndian.AppendUint64(msg, m.tag())
	}
	if m.w.f.reads() && string(m.src.b) != string(m.dst.b) {
		return fmt.Errorf("round %d: read something else than was written", m.round)
	}
	return m.start(m.wr(m.to, m.host.node, msg, nil), m.answer)
}

func (m *mixer) answer() error {
	if len(m.recvs) == 0 {
		return nil
	}
	m.recvs = m.recvs[:0]
	m.round++
	m.waits = 0
	m.next = m.write
	return nil
}

// keeper has the region, and checks the places that messages name.
type keeper struct {
	*node
	mr    device.MR
	back  map[uint16]*mixer
	ahs   map[uint16]device.AH
	said  int
	total int
}

func (k *keeper) finished() bool { return k.said == k.total }
func (k *keeper) String() string { return fmt.Sprintf("%d of %d messages", k.said, k.total) }

func (k *keeper) step() error {
	for _, c := range k.comps[:k.Poll(k.comps[:])] {
		if err := k.take(&c); err != nil {
			return err
		}
	}
	for _, p := range k.recvs {
		off := int(binary.LittleEndian.Uint64(p.data))
		if len(p.data) > 8 {
			tag, whole := tagOf(k.mr.Bytes()[off : off+mixSize])
			if !whole || tag != binary.LittleEndian.Uint64(p.data[8:]) {
				return fmt.Errorf("found %x at %d, whole: %v", tag, off, whole)
			}
		}
		k.said++
		if err := k.PostSend(k.wr(k.ahs[p.SrcQPN], k.back[p.SrcQPN].node, []byte("seen"), nil)); err != nil {
			return err
		}
	}
	k.recvs = k.recvs[:0]
	k.Doorbell()
	return nil
}

// rdmaBeside: written data is in place when a message that was sent after the
// completion arrives.
func (w *world) rdmaBeside() {
	const mixers = 4
	k := &keeper{
		node: w.open(2, device.QPConfig{RNRRetry: 7, RQDepth: 8}), mr: w.alloc(2, mixers*mixSize, allAccess),
		back: map[uint16]*mixer{}, ahs: map[uint16]device.AH{}, total: mixers * mixRounds,
	}
	workers := []worker{k}
	for i := range mixers {
		m := &mixer{node: w.open(i/2, device.QPConfig{RNRRetry: 7, QPN: uint16(20200 + i)}), host: k, off: i * mixSize}
		m.to, m.src, m.dst = m.ah(k.node), m.own(mixSize), m.own(mixSize)
		m.next = m.write
		k.back[m.QPN()], k.ahs[m.QPN()] = m, k.ah(m.node)
		workers = append(workers, m)
	}
	w.drive(workers)
}

// reader reads parts of a region that is not written to, several at a time, until
// it has read enough or is refused.
type reader struct {
	*node
	to      device.AH
	host    *node
	mr      device.MR
	lanes   []own
	whole   []byte
	have    int
	want    int
	refused bool // is no error
	mayEnd  bool
}

const readLanes, readSize = 4, 3000

func (w *world) reader(dev, want int, host *node, mr device.MR, whole []byte) *reader {
	r := &reader{node: w.open(dev, device.QPConfig{SQDepth: readLanes, RQDepth: 1}), host: host, mr: mr, whole: whole, want: want}
	r.to = r.ah(host)
	for range readLanes {
		r.lanes = append(r.lanes, r.own(readSize))
	}
	return r
}

func (r *reader) finished() bool { return r.have >= r.want || r.refused }
func (r *reader) String() string { return fmt.Sprintf("%d of %d reads", r.have, r.want) }

// place is where the read with an ID begins.
func (r *reader) place(id uint64) int { return int(id*7919) % (len(r.whole) - readSize) }

func (r *reader) step() error {
	for _, c := range r.comps[:r.Poll(r.comps[:])] {
		if err := r.take(&c); err != nil {
			return err
		}
		at := r.place(c.ID)
		switch {
		case c.Status == device.StatusBadAddress && r.mayEnd:
			r.refused = true
		case c.Status != device.StatusOK:
			return fmt.Errorf("read %d: %v", c.ID, c.Status)
		case string(r.lanes[c.ID%readLanes].b) != string(r.whole[at:at+readSize]):
			return fmt.Errorf("read %d brought something else", c.ID)
		}
		r.have++
	}
	// The lane of a read is free when the one before in it is over.
	for !r.finished() {
		id := r.nextID + 1
		if _, over := r.sends[id-min(id, readLanes)]; id > readLanes && !over {
			break
		}
		if err := r.PostSend(r.rdma(device.WRRead, r.to, r.host, r.lanes[id%readLanes], r.mr, r.place(id))); err != nil {
			return err
		}
	}
	r.Doorbell()
	return nil
}

// bystander does nothing but let its queue pair go on.
type bystander struct{ *node }

func (b *bystander) step() error    { b.poll(); return nil }
func (b *bystander) finished() bool { return true }
func (b *bystander) String() string { return "a bystander" }

// rdmaReaders: any number may read at the same time.
func (w *world) rdmaReaders() {
	const size = 100_000
	host, mr := w.open(3, device.QPConfig{}), w.alloc(3, size, canRead)
	whole := fill(mr.Bytes(), 3)
	workers := []worker{&bystander{host}}
	for i := range 6 {
		workers = append(workers, w.reader(i/2, 300, host, mr, whole))
	}
	w.drive(workers)
	require.True(w, sameAs(mr.Bytes(), 3, size))
}
