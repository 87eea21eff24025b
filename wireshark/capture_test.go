package wireshark_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/tap"
	"github.com/efactor/efactor/runtime/clock"
	"github.com/efactor/efactor/wire"
)

// Endpoints of captures. A capture doesn't have the connid of senders elsewhere.
var (
	alice = wire.MakeRawAddr([16]byte{0xfe, 0x80, 15: 0xa}, 10, 0x100a)
	bob   = wire.MakeRawAddr([16]byte{0xfe, 0x80, 15: 0xb}, 11, 0x100b)
	carol = wire.MakeRawAddr([16]byte{0xfe, 0x80, 15: 0xc}, 12, 0x100c)
)

// recording writes a capture, and keeps its records.
type recording struct {
	t       *testing.T
	pcapng  *tap.Pcapng
	file    bytes.Buffer
	records []tap.Record
	now     clock.Time // of packets by hand: a microsecond from each to the next
}

func newRecording(t *testing.T) *recording {
	t.Helper()
	r := &recording{t: t}
	var err error
	r.pcapng, err = tap.NewPcapng(&r.file, nil)
	require.NoError(t, err)
	return r
}

// Packet takes a record, unless it is of RDMA.
func (r *recording) Packet(rec tap.Record) {
	r.pcapng.Packet(rec)
	if rec.Kind == device.WRSend {
		rec.Packet = bytes.Clone(rec.Packet)
		r.records = append(r.records, rec)
	}
}

// sent records a packet with its data where it leaves.
func (r *recording) sent(from, to wire.RawAddr, p wire.Packet, data ...byte) {
	r.bytes(true, from, to, append(p.Append(nil), data...))
}

// received records it where it arrives.
func (r *recording) received(from, to wire.RawAddr, p wire.Packet, data ...byte) {
	r.bytes(false, wire.MakeRawAddr(from.GID(), from.QPN(), 0), to, append(p.Append(nil), data...))
}

func (r *recording) bytes(out bool, from, to wire.RawAddr, b []byte) {
	r.now += 1000
	r.Packet(tap.Record{Time: r.now, Out: out, From: from, To: to, Packet: b})
}

// save returns the name of the capture's file.
func (r *recording) save() string {
	r.t.Helper()
	require.NoError(r.t, r.pcapng.Err())
	name := tempFile(r.t, "capture.pcapng")
	require.NoError(r.t, os.WriteFile(name, r.file.Bytes(), 0o600))
	return name
}

// snapped is a frame of which a capture has the first bytes only.
type snapped struct {
	bytes []byte
	have  int
}

// savePcap writes a capture in the older format, and gives the name of the file.
func savePcap(t *testing.T, frames []snapped) string {
	t.Helper()
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0xa1b2c3d4)
	b = le.AppendUint32(b, 2|4<<16) // version 2.4
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, 1<<18)
	b = le.AppendUint32(b, tap.LinkType)
	for _, f := range frames {
		b = append(b, make([]byte, 8)...)
		b = le.AppendUint32(b, uint32(f.have))
		b = le.AppendUint32(b, uint32(len(f.bytes)))
		b = append(b, f.bytes[:f.have]...)
	}
	name := tempFile(t, "capture.pcap")
	require.NoError(t, os.WriteFile(name, b, 0o600))
	return name
}
