package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// stream names the messages of one process for another; each life of either begins a new one.
type stream struct {
	From, To         int
	FromLife, ToLife int
}

// sentLog is what the sender of a stream knows at its end.
type sentLog struct {
	Stream stream
	N      uint64   // messages 0 to N-1 were sent
	Failed []uint64 // of which these ended with an error: whether they arrived is open
}

// gotLog is what the receiver knows of a stream.
type gotLog struct {
	Stream stream
	Next   uint64   // one more than the last received
	Missed []uint64 // never received, below Next
}

// mostMissed bounds what a receiver remembers; more are a violation by themselves.
const mostMissed = 1 << 16

var errOrder = errors.New("a message was received twice or out of order")

// take notes the arrival of a message.
func (g *gotLog) take(seq uint64) error {
	if seq < g.Next {
		return fmt.Errorf("%w: %+v: number %d after %d", errOrder, g.Stream, seq, g.Next-1)
	}
	if seq-g.Next+uint64(len(g.Missed)) > mostMissed {
		return fmt.Errorf("%+v: number %d after %d", g.Stream, seq, g.Next)
	}
	for ; g.Next < seq; g.Next++ {
		g.Missed = append(g.Missed, g.Next)
	}
	g.Next++
	return nil
}

// lost are the messages that the sender thinks have arrived and the receiver has not got.
func (s *sentLog) lost(g *gotLog) (lost []uint64) {
	open := make(map[uint64]bool, len(s.Failed))
	for _, n := range s.Failed {
		open[n] = true
	}
	for _, n := range g.Missed {
		if n < s.N && !open[n] {
			lost = append(lost, n)
		}
	}
	for n := g.Next; n < s.N; n++ {
		if !open[n] {
			lost = append(lost, n)
		}
	}
	return lost
}

// headLen is the length of what begins every message: checksum of the rest, length, number,
// and stream.
const headLen = 32

var errGarbled = errors.New("a message is not what was sent")

// seal writes the head of message seq, whose bytes are all of b.
func (s stream) seal(b []byte, seq uint64) {
	le := binary.LittleEndian
	le.PutUint32(b[4:], uint32(len(b)))
	le.PutUint64(b[8:], seq)
	for i, v := range [...]int{s.From, s.To, s.FromLife, s.ToLife} {
		le.PutUint32(b[16+4*i:], uint32(v))
	}
	le.PutUint32(b, crc32.ChecksumIEEE(b[4:]))
}

// unseal checks a message.
func unseal(b []byte) (s stream, seq uint64, err error) {
	le := binary.LittleEndian
	if len(b) < headLen || int(le.Uint32(b[4:])) != len(b) || le.Uint32(b) != crc32.ChecksumIEEE(b[4:]) {
		return s, 0, fmt.Errorf("%w: %d bytes", errGarbled, len(b))
	}
	for i, v := range [...]*int{&s.From, &s.To, &s.FromLife, &s.ToLife} {
		*v = int(le.Uint32(b[16+4*i:]))
	}
	return s, le.Uint64(b[8:]), nil
}

// lastOK is one more than the last message that is known to have arrived, or 0.
func (s *sentLog) lastOK() uint64 {
	n := s.N
	for i := len(s.Failed); i > 0 && n > 0 && s.Failed[i-1] == n-1; i-- {
		n--
	}
	return n
}
