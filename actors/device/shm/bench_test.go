//go:build linux

package shm

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/runtime/clock"
)

const (
	testQPN  = 7
	testQKey = 0x1234
)

func init() {
	roles["echo"] = echo
	roles["sink"] = sink
}

// echo sends every packet back: the far side of the ping-pong.
func echo(args []string) error {
	_, q, ah, err := attach(args[0], device.QPConfig{QPN: testQPN, QKey: testQKey, RNRRetry: 7})
	if err != nil {
		return err
	}
	say("ready")
	end := orphaned()
	var c [16]device.Completion
	wr := device.SendWR{AH: ah, QKey: testQKey}
	var slot [1]int32
	for i := 0; ; i++ {
		for _, e := range c[:q.Poll(c[:])] {
			if e.Op != device.OpRecv {
				continue
			}
			wr.QPN, wr.Payload = e.SrcQPN, q.RecvBytes(int(e.ID))[:e.Len]
			if err := q.PostSend(&wr); err != nil {
				return err
			}
			q.Doorbell()
			slot[0] = int32(e.ID)
			q.PostRecv(slot[:])
		}
		if i&0xfff == 0 {
			select {
			case <-end:
				return nil
			default:
			}
		}
	}
}

// BenchmarkPingPong is the device's part of the way: from PostSend here to Poll
// in the other process, half of the round trip. Both sides spin.
func BenchmarkPingPong(b *testing.B) {
	for _, size := range []int{32, 100, 256, 1024, 8192} {
		b.Run("size="+strconv.Itoa(size), func(b *testing.B) { pingPong(b, size) })
	}
}

// measure runs the benchmark's loop. Beside the mean, which a neighbour on the same
// processor may ruin, it reports quantiles over chunks of rounds, by way.
func measure(b *testing.B, ways float64, round func()) { measureEvery(b, 256, ways, round) }

// measureEvery is measure with this many rounds between two readings of the clock.
func measureEvery(b *testing.B, chunk int, ways float64, round func()) {
	var chunks []float64
	n, last := 0, clock.System.Now()
	for b.Loop() {
		round()
		if n++; n%chunk == 0 {
			now := clock.System.Now()
			chunks = append(chunks, float64(now.Sub(last).Nanoseconds())/float64(chunk)/ways)
			last = now
		}
	}
	b.StopTimer()
	if len(chunks) > 0 {
		slices.Sort(chunks)
		b.ReportMetric(chunks[len(chunks)/2], "p50-ns/way")
		b.ReportMetric(chunks[len(chunks)/100], "p1-ns/way")
	}
}

func pingPong(b *testing.B, size int) {
	dir := fabricDir(b)
	q, ah := mustAttach(b, dir, device.QPConfig{QKey: testQKey, RNRRetry: 7})
	p := start(b, "echo", dir)
	wr := device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey, Payload: make([]byte, size)}
	var c [16]device.Completion
	var slot [1]int32
	round := func() {
		if err := q.PostSend(&wr); err != nil {
			b.Fatal(err)
		}
		q.Doorbell()
		for got := false; !got; {
			for _, e := range c[:q.Poll(c[:])] {
				if e.Op == device.OpRecv {
					got = true
					slot[0] = int32(e.ID)
				}
			}
		}
		q.PostRecv(slot[:])
	}
	for range 1000 {
		round()
	}
	measure(b, 2, round)
	p.end(b)
}

// sink receives and counts bytes; at every full count it says so by a packet.
func sink(args []string) error {
	depth, _ := strconv.Atoi(args[1])
	_, q, ah, err := attach(args[0], device.QPConfig{QPN: testQPN, QKey: testQKey, RNRRetry: 7, RQDepth: depth})
	if err != nil {
		return err
	}
	say("ready")
	end := orphaned()
	var c [16]device.Completion
	wr := device.SendWR{AH: ah, QKey: testQKey}
	slots := make([]int32, 0, len(c))
	count := 0
	for i := 0; ; i++ {
		slots = slots[:0]
		for _, e := range c[:q.Poll(c[:])] {
			if e.Op != device.OpRecv {
				continue
			}
			slots = append(slots, int32(e.ID))
			if count++; count%window == 0 {
				wr.QPN = e.SrcQPN
				if err := q.PostSend(&wr); err != nil {
					return err
				}
			}
		}
		q.PostRecv(slots)
		if i&0xfff == 0 {
			select {
			case <-end:
				return nil
			default:
			}
		}
	}
}

const window = 64

// BenchmarkStream sends packets one way, two windows ahead of the receiver's
// acknowledgements.
func BenchmarkStream(b *testing.B) {
	for _, size := range []int{32, 1024, 8192} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) { stream(b, size) })
	}
}

func stream(b *testing.B, size int) {
	dir := fabricDir(b)
	q, ah := mustAttach(b, dir, device.QPConfig{QKey: testQKey, RNRRetry: 7})
	p := start(b, "sink", dir, DefaultDepth)
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(i)
	}
	wr := device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey, Payload: payload}
	var c [16]device.Completion
	var slot [1]int32
	ahead, out := 0, 0
	poll := func() {
		for _, e := range c[:q.Poll(c[:])] {
			if e.Op == device.OpSend {
				if e.Status != device.StatusOK {
					b.Fatal(e.Status)
				}
				out--
				continue
			}
			ahead -= window
			slot[0] = int32(e.ID)
			q.PostRecv(slot[:])
		}
	}
	b.SetBytes(int64(size))
	from := clock.System.Now()
	best, sentPkts := math.Inf(1), 0
	for b.Loop() {
		for ahead >= 2*window || out >= 128 {
			poll()
		}
		if err := q.PostSend(&wr); err != nil {
			b.Fatal(err)
		}
		ahead++
		out++
		if sentPkts++; sentPkts%4096 == 0 {
			now := clock.System.Now()
			best = min(best, float64(now.Sub(from).Nanoseconds())/4096)
			from = now
		}
		if sentPkts&7 == 0 {
			poll()
		}
	}
	b.ReportMetric(best, "best-ns/pkt")
	p.end(b)
}

// BenchmarkBounce is the floor: one cache line that two cores write in turn.
func BenchmarkBounce(b *testing.B) {
	var line [pairBytes * 2]byte
	w := (*atomic.Uint64)(unsafe.Pointer(&line[pairBytes-int(uintptr(unsafe.Pointer(&line))%pairBytes)]))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for at := uint64(1); ; at += 2 {
			for w.Load() != at {
				if w.Load() == math.MaxUint64 {
					return
				}
			}
			w.Store(at + 1)
		}
	}()
	at, spins := uint64(0), 0
	measure(b, 2, func() {
		w.Store(at + 1)
		at += 2
		for got := w.Load(); got != at; got = w.Load() {
			spins++
		}
	})
	w.Store(math.MaxUint64)
	<-done
}

// BenchmarkSelf is the processor's work for a packet, on both sides together: a
// queue pair sends to itself, so no cache line moves.
func BenchmarkSelf(b *testing.B) {
	dir := fabricDir(b)
	q, ah := mustAttach(b, dir, device.QPConfig{QKey: testQKey})
	wr := device.SendWR{AH: ah, QPN: q.QPN(), QKey: testQKey, Payload: make([]byte, 32)}
	var c [16]device.Completion
	var slot [1]int32
	b.ReportAllocs()
	for b.Loop() {
		if err := q.PostSend(&wr); err != nil {
			b.Fatal(err)
		}
		q.Doorbell()
		for _, e := range c[:q.Poll(c[:])] {
			if e.Op == device.OpRecv {
				slot[0] = int32(e.ID)
				q.PostRecv(slot[:])
			}
		}
	}
}

func init() { roles["gather"] = gather }

// gather receives messages of this many bytes and reports each. It copies them out
// of packets, or, if it was given a key, reads them from there.
func gather(args []string) error {
	size, _ := strconv.Atoi(args[1])
	key, _ := strconv.ParseUint(args[2], 10, 32)
	addr, _ := strconv.ParseUint(args[3], 10, 64)
	d, q, ah, err := attach(args[0], device.QPConfig{QPN: testQPN, QKey: testQKey, RNRRetry: 7})
	if err != nil {
		return err
	}
	say("ready")
	end := orphaned()
	var c [16]device.Completion
	span, _ := strconv.Atoi(args[4])
	mr, err := d.Alloc(span, device.LocalWrite)
	if err != nil {
		return err
	}
	local := mr.Bytes()[:size]
	next := 0
	slots := make([]int32, 0, len(c))
	ack := device.SendWR{AH: ah, QKey: testQKey, Header: make([]byte, 40)}
	at, reads := 0, 0
	for i := 0; ; i++ {
		slots = slots[:0]
		for _, e := range c[:q.Poll(c[:])] {
			if e.Op == device.OpSend {
				if e.ID == 1 {
					if reads--; reads == 0 {
						at = size
					}
				}
			} else {
				ack.QPN = e.SrcQPN
				slots = append(slots, int32(e.ID))
				if key == 0 {
					at += copy(local[at:], q.RecvBytes(int(e.ID))[:e.Len])
				} else {
					wr := device.SendWR{
						ID: 1, AH: ah, QPN: e.SrcQPN, QKey: testQKey, Kind: device.WRRead, RKey: key, Remote: addr + uint64(next),
					}
					for rest := local; len(rest) > 0; rest = rest[len(wr.Payload):] {
						wr.Payload = rest[:min(len(rest), maxRDMA)]
						if err := q.PostSend(&wr); err != nil {
							return err
						}
						wr.Remote += uint64(len(wr.Payload))
						reads++
					}
				}
			}
			if at == size {
				at, next = 0, after(next, size, span)
				local = mr.Bytes()[next : next+size]
				if err := q.PostSend(&ack); err != nil {
					return err
				}
			}
		}
		q.PostRecv(slots)
		if i&0xfff == 0 {
			select {
			case <-end:
				return mr.Close()
			default:
			}
		}
	}
}

// BenchmarkCross is the origin of Config's thresholds: one message at a time, from
// an Alloc'ed buffer until its end is reported, by packets (two copies, in turn at
// both sides) and read from where it lies (one).
func BenchmarkCross(b *testing.B) {
	for _, size := range []int{2, 4, 8, 12, 16, 24, 32, 48, 64, 128, 256, 512, 1024, 4096} {
		for _, cold := range []bool{false, true} {
			for _, read := range []bool{false, true} {
				b.Run(fmt.Sprintf("size=%dKiB/cold=%v/read=%v", size, cold, read), func(b *testing.B) {
					span := size << 10
					if cold {
						span = 64 << 20
					}
					cross(b, size<<10, span, read)
				})
			}
		}
	}
}

// after is where the message after the one at off lies.
func after(off, size, span int) int {
	if off += size; off+size > span {
		return 0
	}
	return off
}

func cross(b *testing.B, size, span int, read bool) {
	dir := fabricDir(b)
	q, ah := mustAttach(b, dir, device.QPConfig{QKey: testQKey, RNRRetry: 7})
	mr, err := portBehind(q).dev.Alloc(span, device.RemoteRead)
	require.NoError(b, err)
	defer mr.Close()
	for i := range mr.Bytes() {
		mr.Bytes()[i] = byte(i)
	}
	next := 0
	key := mr.RKey()
	if !read {
		key = 0
	}
	p := start(b, "gather", dir, size, key, mr.Addr(), span)
	wr := device.SendWR{AH: ah, QPN: testQPN, QKey: testQKey}
	var c [16]device.Completion
	var slot [1]int32
	acked := false
	poll := func() {
		for _, e := range c[:q.Poll(c[:])] {
			if e.Op == device.OpRecv {
				acked = true
				slot[0] = int32(e.ID)
				q.PostRecv(slot[:])
			}
		}
	}
	b.SetBytes(int64(size))
	measureEvery(b, 8, 1, func() {
		data := mr.Bytes()[next : next+size]
		next = after(next, size, span)
		for i := 0; i < size; i += 64 { // the application makes new data
			data[i]++
		}
		if read {
			wr.Payload = data[:64] // stands for the request
			if err := q.PostSend(&wr); err != nil {
				b.Fatal(err)
			}
		} else {
			for rest := data; len(rest) > 0; rest = rest[len(wr.Payload):] {
				wr.Payload = rest[:min(len(rest), DefaultMTU-64)]
				for q.PostSend(&wr) != nil {
					poll()
				}
			}
		}
		for acked = false; !acked; {
			poll()
		}
	})
	p.end(b)
}

// fetch carries out requests of at most chunk bytes until local has gone.
func fetch(t testing.TB, p *port, wr device.SendWR, local []byte, chunk int) {
	for len(local) > 0 {
		wr.Payload = local[:min(chunk, len(local))]
		if st := p.RDMA(&wr, 0); st != device.StatusOK {
			t.Fatal(st)
		}
		wr.Remote += uint64(len(wr.Payload))
		local = local[len(wr.Payload):]
	}
}

// BenchmarkRead reads 1 MiB from a region of another process, with requests of
// different sizes, and copies the same amount within a process. Warm is always the
// same memory; cold exceeds the caches of a core. All pages are mapped before.
func BenchmarkRead(b *testing.B) {
	b.Run("warm", func(b *testing.B) { readMiB(b, 1<<20) })
	b.Run("cold", func(b *testing.B) { readMiB(b, 64<<20) })
}

func readMiB(b *testing.B, span int) {
	const size = 1 << 20
	dir := fabricDir(b)
	q, ah := mustAttach(b, dir, device.QPConfig{})
	p := portBehind(q)
	owner := startOwner(b, dir, span, device.RemoteRead)
	mine, err := p.dev.Alloc(span, device.LocalWrite)
	require.NoError(b, err)
	defer mine.Close()
	wr := owner.wr(ah, device.WRRead, nil)
	fetch(b, p, *wr, mine.Bytes(), size)
	each := func(b *testing.B, f func(at int)) {
		b.SetBytes(size)
		at := 0
		for b.Loop() {
			f(at)
			at = (at + size) % span
		}
	}
	for _, chunk := range []int{64 << 10, maxRDMA, 1 << 20} {
		b.Run(fmt.Sprintf("1MiB/by=%dKiB", chunk>>10), func(b *testing.B) {
			each(b, func(at int) {
				wr.Remote = owner.addr + uint64(at)
				fetch(b, p, *wr, mine.Bytes()[at:at+size], chunk)
			})
		})
	}
	from := make([]byte, span)
	for i := range from {
		from[i] = byte(i)
	}
	b.Run("1MiB/memcpy", func(b *testing.B) {
		each(b, func(at int) { copy(mine.Bytes()[at:at+size], from[at:at+size]) })
	})
}

// BenchmarkForeign is one request to memory of Alloc, and to memory of a program
// that does not use this package.
func BenchmarkForeign(b *testing.B) {
	for _, size := range []int{8, 4 << 10, 64 << 10, maxRDMA} {
		for _, foreign := range []bool{false, true} {
			for kind, name := range map[device.WR]string{device.WRRead: "read", device.WRWrite: "write"} {
				b.Run(fmt.Sprintf("%s/size=%d/foreign=%v", name, size, foreign), func(b *testing.B) {
					c := newCouple(b, maxRDMA, remoteAll)
					if foreign {
						c.register(startProgram(b, maxRDMA, "open"), maxRDMA, remoteAll)
					}
					wr, p := c.wr(kind, make([]byte, size), 0), portBehind(c.a)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						if st := p.RDMA(wr, 0); st != device.StatusOK {
							b.Fatal(st)
						}
					}
				})
			}
		}
	}
}

// BenchmarkRegisterForeign makes a region, reads a byte of it and closes it.
func BenchmarkRegisterForeign(b *testing.B) {
	c := newCouple(b, 64, remoteAll)
	v := startProgram(b, 100, "open")
	for b.Loop() {
		mr, err := c.devB().RegisterForeign(v.pid(), v.addr, 100, remoteAll)
		require.NoError(b, err)
		c.mr = mr
		c.ends(c.wr(device.WRRead, make([]byte, 1), 0), device.StatusOK)
		require.NoError(b, mr.Close())
	}
}
