package main

import (
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net"
	"syscall"
	"time"

	"github.com/efactor/efactor/runtime/clock"
)

// resetter resets TCP connections of the loopback interface, as a middlebox does: it reads what passes,
// and answers for both sides. It is to be alone in its network namespace.
type resetter struct{ packets, raw int }

func newResetter() (*resetter, error) {
	lo, err := net.InterfaceByName("lo")
	if err != nil {
		return nil, err
	}
	const ip = 0x0008 // ETH_P_IP, as the network has it
	packets, err := syscall.Socket(syscall.AF_PACKET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, ip)
	if err != nil {
		return nil, err
	}
	raw, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.IPPROTO_RAW)
	if err != nil {
		return nil, errors.Join(err, syscall.Close(packets))
	}
	s := &resetter{packets, raw}
	err = errors.Join(
		syscall.Bind(packets, &syscall.SockaddrLinklayer{Protocol: ip, Ifindex: lo.Index}),
		syscall.SetsockoptTimeval(packets, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 100_000}),
	)
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *resetter) Close() error { return errors.Join(syscall.Close(s.packets), syscall.Close(s.raw)) }

// run resets connections in the middle of what they carry, rate a second on average, until ctx
// ends. It counts them.
func (s *resetter) run(ctx context.Context, rng *rand.Rand, rate float64, did func()) {
	b := make([]byte, 1<<16)
	next := clock.System.Now()
	for ctx.Err() == nil {
		n, _, err := syscall.Recvfrom(s.packets, b, 0)
		now := clock.System.Now()
		if err != nil || now.Sub(next) < 0 || !s.reset(b[:n]) {
			continue
		}
		did()
		next = now.Add(time.Duration(rng.ExpFloat64() / rate * float64(time.Second)))
	}
}

// reset resets the connection of a packet, for both of its sides. It reports false if that is no
// segment of one that is open.
func (s *resetter) reset(b []byte) bool {
	const ether = 14
	if len(b) < ether+40 || b[ether]>>4 != 4 {
		return false
	}
	ip := b[ether:]
	head := int(ip[0]&15) * 4
	if ip[9] != syscall.IPPROTO_TCP || len(ip) < head+20 {
		return false
	}
	const finSynRst = 7
	tcp := ip[head:]
	if tcp[13]&finSynRst != 0 {
		return false
	}
	be := binary.BigEndian
	length := int(be.Uint16(ip[2:])) - head - int(tcp[12]>>4)*4
	seq, ack := be.Uint32(tcp[4:]), be.Uint32(tcp[8:])
	here, there := [4]byte(ip[12:16]), [4]byte(ip[16:20])
	s.send(here, there, be.Uint16(tcp), be.Uint16(tcp[2:]), seq+uint32(length))
	s.send(there, here, be.Uint16(tcp[2:]), be.Uint16(tcp), ack)
	return true
}

// send sends a reset from one side to the other. One that comes too late does nothing.
func (s *resetter) send(from, to [4]byte, sport, dport uint16, seq uint32) {
	be := binary.BigEndian
	tcp := make([]byte, 20)
	be.PutUint16(tcp, sport)
	be.PutUint16(tcp[2:], dport)
	be.PutUint32(tcp[4:], seq)
	tcp[12], tcp[13] = 5<<4, 4
	pseudo := append(append(append([]byte(nil), from[:]...), to[:]...), 0, syscall.IPPROTO_TCP, 0, byte(len(tcp)))
	be.PutUint16(tcp[16:], checksum(append(pseudo, tcp...)))
	ip := make([]byte, 20, 40)
	ip[0], ip[8], ip[9] = 0x45, 64, syscall.IPPROTO_TCP
	be.PutUint16(ip[2:], 40)
	copy(ip[12:], from[:])
	copy(ip[16:], to[:])
	_ = syscall.Sendto(s.raw, append(ip, tcp...), 0, &syscall.SockaddrInet4{Addr: to})
}

// checksum is the Internet's, of an even number of bytes.
func checksum(b []byte) uint16 {
	sum := uint32(0)
	for ; len(b) > 1; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum + sum>>16)
}
