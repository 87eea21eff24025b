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
