// Oneway sends messages of 8 bytes over shared memory, from one endpoint to
// another of the same process, and writes for each what code ran from the call of Send
// until the device was called: DIR/0, DIR/1 and so on get the files of a coverage
// directory. It must be built with -cover -covermode=atomic. TestOneWay runs it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"strconv"
	"time"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/api/efa"
)

// Before the messages that are looked at, others meet what happens once: HANDSHAKE, memory
// for the first operations.
const warmUp, messages = 100, 30

// idle is long enough for shards to go to sleep.
const idle = 5 * time.Millisecond

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: oneway FABRIC DIR")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "oneway:", err)
		os.Exit(1)
	}
}

func run(fabric, dir string) error {
	ctx := context.Background()
	dev, err := efa.OpenDevice("shm:" + fabric)
	if err != nil {
		return err
	}
	w := &watched{Device: dev}
	from, err := open(ctx, efa.Config{Device: w})
	if err != nil {
		return err
	}
	to, err := open(ctx, efa.Config{DeviceName: "shm:" + fabric})
	if err != nil {
		return err
	}
	peer, err := from.AddressVector().Insert(to.Address())
	if err != nil {
		return err
	}
	back, err := to.AddressVector().Insert(from.Address())
	if err != nil {
		return err
	}
	p := make([]byte, 8)
	for range warmUp {
		if err := errors.Join(pass(ctx, from, peer, to, p), pass(ctx, to, back, from, p)); err != nil {
			return err
		}
	}
	for i := range messages {
		out := filepath.Join(dir, strconv.Itoa(i))
		if err := prepare(out); err != nil {
			return err
		}
		// Some messages find a shard that sleeps, whose clock is read; others one that its
		// helper is about to look after. What they have in common is the message's own way.
		if i%2 == 0 {
			if err := pass(ctx, from, peer, to, p); err != nil {
				return err
			}
		} else {
			time.Sleep(idle) //nolint:forbidigo // the shard is to fall asleep
		}
		if err := w.arm(out); err != nil {
			return err
		}
		if err := pass(ctx, from, peer, to, p); err != nil {
			return err
		}
		if w.dir != "" || w.err != nil {
			return errors.Join(errors.New("the device was not called, or failed to write"), w.err)
		}
	}
	return errors.Join(from.Close(), to.Close())
}

func open(ctx context.Context, cfg efa.Config) (*efa.Endpoint, error) {
	return efa.OpenEndpoint(ctx, efa.Setup{Fabric: cfg, Domain: efa.DomainConfig{Progress: efa.ProgressManual}})
}

func pass(ctx context.Context, from *efa.Endpoint, peer efa.Addr, to *efa.Endpoint, p []byte) error {
	if err := from.Send(ctx, peer, p); err != nil {
		return err
	}
	_, err := to.Recv(ctx, p)
	return err
}

// watched is a device that writes the counters out when a message is posted.
type watched struct {
	efa.Device
	dir string // where to; "" when that is done
	err error
}

// prepare makes a directory for counters.
func prepare(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return coverage.WriteMetaDir(dir)
}

// arm makes the next post write the counters of what runs from now on.
func (w *watched) arm(dir string) error {
	w.dir = dir
	return coverage.ClearCounters()
}

// OpenQP implements device.Device.
func (w *watched) OpenQP(cfg device.QPConfig) (device.QP, error) {
	qp, err := w.Device.OpenQP(cfg)
	if err != nil {
		return nil, err
	}
	return &watchedQP{qp, w}, nil
}

type watchedQP struct {
	device.QP
	w *watched
}

// PostSend implements device.QP.
func (q *watchedQP) PostSend(wr *device.SendWR) error {
	if q.w.dir != "" {
		q.w.err = coverage.WriteCountersDir(q.w.dir)
		q.w.dir = ""
	}
	return q.QP.PostSend(wr)
}
