//go:build linux

package rdmacore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/uverbs"
	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/trace"
	"github.com/efactor/efactor/runtime/clock"
)

// playVar makes this test binary play a script on this repository's driver, as
// testdata/script.c does on libefa.
const playVar = "EFACTOR_RDMACORE_PLAY"

// player plays a script.
type player struct {
	system  marking
	dev     device.Device
	qp      device.QP
	ah      device.AH
	qkey    uint32
	regions []device.MR
}

// marking is a system of which the player knows the device file.
type marking struct {
	uverbs.OS
	file *uverbs.File
}

// Open implements uverbs.Kernel.
func (m marking) Open(path string) (uverbs.File, error) {
	f, err := m.OS.Open(path)
	*m.file = f
	return f, err
}

// mark is the ioctl after a step. The device refuses it.
func (p *player) mark(line int) {
	h := abi.Header{Length: abi.HeaderLen, Object: trace.Mark, Method: uint16(line), Driver: abi.DriverEFA}
	b := h.Append(nil)
	_ = (*p.system.file).Ioctl(abi.IoctlVerbs, unsafe.Pointer(&b[0]))
}

func play(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	p := &player{system: marking{file: new(uverbs.File)}}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		verb, args, _ := strings.Cut(line, " ")
		if verb == "#" {
			continue
		}
		if err := p.step(verb, args, i+1); err != nil {
			return fmt.Errorf("line %d: %s: %w", i+1, line, err)
		}
		if verb != "close" && verb != "poll" {
			p.mark(i + 1)
		}
	}
	return nil
}

// errUnready: what must be there at once, is not.
var errUnready = errors.New("not there")

func (p *player) step(verb, args string, line int) (err error) {
	switch verb {
	case "open":
		p.dev, err = uverbs.Open(uverbs.Config{Path: "/dev/infiniband/uverbs0", Kernel: p.system, Narrow: args == "narrow"})
	case "qp":
		return p.openQP(args)
	case "region":
		return p.region(args)
	case "ah":
		p.ah, err = p.qp.CreateAH(p.dev.Info().GID)
	case "unah":
		return p.qp.DestroyAH(p.ah)
	case "recv":
		return p.receives(args)
	case "send":
		return p.sends(args)
	case "read":
		return p.rdma(device.WRRead, args)
	case "write":
		return p.rdma(device.WRWrite, args)
	case "poll":
		return p.polls(args, line)
	case "arm":
		if !p.qp.Arm() {
			return errUnready
		}
	case "wait":
		return p.wait()
	case "unqp":
		return p.qp.Close()
	case "unregion":
		last := len(p.regions) - 1
		err = p.regions[last].Close()
		p.regions = p.regions[:last]
	case "close":
		return p.dev.Close()
	default:
		return errors.ErrUnsupported
	}
	return err
}

func (p *player) openQP(args string) (err error) {
	var cfg device.QPConfig
	var inline, rnr, vector, write int
	_, err = fmt.Sscanf(args, "%d %d %d 0x%x %d %d %d", &cfg.SQDepth, &cfg.RQDepth, &inline, &cfg.QKey, &rnr, &vector, &write)
	if err != nil {
		return err
	}
	cfg.RNRRetry, p.qkey = uint8(max(rnr, 0)), cfg.QKey
	p.qp, err = p.dev.OpenQP(cfg)
	return err
}

func (p *player) region(args string) error {
	var n int
	var rights device.Access
	bits := 0
	if _, err := fmt.Sscan(args, &n, &bits); err != nil {
		return err
	}
	for _, b := range []struct {
		bit   int
		right device.Access
	}{{abi.AccessLocalWrite, device.LocalWrite}, {abi.AccessRemoteWrite, device.RemoteWrite}, {abi.AccessRemoteRead, device.RemoteRead}} {
		if bits&b.bit != 0 {
			rights |= b.right
		}
	}
	mr, err := p.dev.Alloc(n, rights)
	p.regions = append(p.regions, mr)
	return err
}

func (p *player) receives(args string) error {
	var slots []int32
	for _, s := range strings.Fields(args) {
		var n int32
		if _, err := fmt.Sscan(s, &n); err != nil {
			return err
		}
		slots = append(slots, n)
	}
	p.qp.PostRecv(slots)
	return nil
}

// alphabet is what packets begin with.
var alphabet = bytes.Repeat([]byte("abcdefghijklmnopqrstuvwxyz"), 1<<10)

func (p *player) sends(args string) error {
	var count, length, region, off, n int
	imm := int64(-1)
	var immText string
	if _, err := fmt.Sscan(args, &count, &length, &immText, &region, &off, &n); err != nil {
		return err
	}
	if _, err := fmt.Sscan(immText, &imm); err != nil {
		return err
	}
	// The scripts for libefa give verbs a big-endian number, which libfabric does not.
	wr := device.SendWR{AH: p.ah, QPN: p.qp.QPN(), QKey: p.qkey, HasImm: imm >= 0, Imm: abi.Immediate(uint32(max(imm, 0))), Header: alphabet[:length]}
	if n > 0 {
		wr.Payload, wr.LKey = p.regions[region].Bytes()[off:off+n], p.regions[region].LKey()
	}
	for range count {
		if err := p.qp.PostSend(&wr); err != nil {
			return err
		}
	}
	p.qp.Doorbell()
	return nil
}

func (p *player) rdma(kind device.WR, args string) error {
	var n, local, off, remote int
	var at uint64
	var imm int64
	if _, err := fmt.Sscan(args, &n, &local, &off, &remote, &at, &imm); err != nil {
		return err
	}
	defer p.qp.Doorbell()
	return p.qp.PostSend(&device.SendWR{
		Kind: kind, AH: p.ah, QPN: p.qp.QPN(), QKey: p.qkey, HasImm: imm >= 0, Imm: abi.Immediate(uint32(max(imm, 0))),
		Payload: p.regions[local].Bytes()[off : off+n], LKey: p.regions[local].LKey(),
		RKey: p.regions[remote].RKey(), Remote: p.regions[remote].Addr() + at,
	})
}

func (p *player) polls(args string, line int) error {
	var n int
	if _, err := fmt.Sscan(args, &n); err != nil {
		return err
	}
	for range n {
		var c [1]device.Completion
		end := clock.System.Now().Add(patience / 4)
		for ; p.qp.Poll(c[:]) == 0; _, _ = unix.Poll(nil, 1) {
			if clock.System.Now() > end {
				return errUnready
			}
		}
		if c[0].Status != device.StatusOK {
			return fmt.Errorf("%+v", c[0])
		}
		p.mark(line)
	}
	return nil
}

// wait waits for an event.
func (p *player) wait() error {
	var fds []unix.PollFd
	for _, fd := range p.qp.FDs() {
		fds = append(fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for {
		n, err := unix.Poll(fds, int(patience.Milliseconds()/4))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && n == 0:
			return errUnready
		}
		return err
	}
}
