//go:build linux

package shm

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

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
