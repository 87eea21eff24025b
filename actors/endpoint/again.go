package endpoint

import (
	"context"
	"errors"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/wire"
)

// An endpoint that its device has ended can be followed by another one, see Config.After.
// Its connid must be another, since it begins to count messages anew, and its peers must
// not take that for messages which they have had.

// Await waits until e, which has [Endpoint.Ended], has given every operation its outcome.
// Any goroutine.
func Await(ctx context.Context, e *Endpoint) error {
	return e.cfg.Shard.Wait(ctx, &e.closing.closed)
}

// numbers are the queue pair's numbers to ask for: of one device, or by device.
func (c *Config) numbers() (qpn uint16, qpns []uint16) {
	if c.After == nil {
		return c.QPN, nil
	}
	was := c.After
	for i := range was.env.Paths {
		n := was.env.Paths[i].Addr.QPN()
		if was.pools.Infos[i].OwnQPN {
			n = 0
		}
		qpns = append(qpns, n)
	}
	if len(qpns) == 1 {
		return qpns[0], nil
	}
	return 0, qpns
}

// handOver makes the ring of requests the new endpoint's, which has handled nothing yet. Its ids
// go on where those of the former one ended: a Cancel that comes late is of none of its requests.
func (c *closing) handOver(to *Endpoint) {
	c.late.Lock()
	defer c.late.Unlock()
	c.next = to
	to.reqs, to.lastDirect = c.e.reqs, c.e.lastDirect
	to.cfg.After = nil
}

// openQP makes the queue pair.
func (c *Config) openQP() (qp device.QP, err error) {
	info := c.Device.Info()
	set := c.Settings.On(&info)
	qpn, qpns := c.numbers()
	var transport device.QPType
	if c.Datagram {
		transport = device.UD
	}
	open := func() (err error) {
		qp, err = c.Device.OpenQP(device.QPConfig{
			SQDepth: set.SendQueue, RQDepth: set.RecvQueue, QPN: qpn, QPNs: qpns, QKey: c.ConnID,
			RNRRetry: set.Retries(), Notify: c.Shard.Wake, Type: transport,
			ReadsPlain: !c.Direct && !set.NoRDMARead && set.Features.Has(wire.FeatureReadNACK),
		})
		return err
	}
	err = device.Guard(open)
	if errors.Is(err, device.ErrNoMemory) && c.Plain != nil && c.Plain.Drop() {
		err = device.Guard(open)
	}
	return qp, err
}
