package efa_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/device/sim"
	"github.com/efactor/efactor/api/efa"
)

// TestReachable: each number that the package returns, by something that a program may do.
// ErrIO is in TestEnableAgain, ErrNoData in TestDevicesHints, ErrTimedOut in TestOldPeerRefuses,
// what peers and devices do in
// TestStatusErrors.
func TestReachable(t *testing.T) {
	ctx := testContext(t)
	for want, call := range map[efa.Errno]func(t *testing.T) error{
		efa.ErrAgain: func(t *testing.T) error {
			a, _ := lab{ep: efa.EndpointConfig{RxDepth: 1}}.open(t)
			require.NoError(t, second(a.ep.PostRecv(&efa.RecvReq{})))
			return second(a.ep.PostRecv(&efa.RecvReq{}))
		},
		efa.ErrBusy: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return a.dom.Close()
		},
		efa.ErrInvalid: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return a.ep.Send(ctx, a.peer, nil, efa.Complete(efa.Delivered+1))
		},
		efa.ErrMsgSize: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return a.ep.Send(ctx, a.peer, make([]byte, a.dom.Limits().MaxInject+1), efa.Inject)
		},
		efa.ErrNotSupported: func(t *testing.T) error {
			a, _ := lab{ep: efa.EndpointConfig{Direct: true}}.open(t)
			return a.ep.SendTag(ctx, a.peer, 1, nil)
		},
		efa.ErrCanceled: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			op := start(t, a, &efa.RecvReq{})
			require.NoError(t, a.ep.Cancel(op.ID()))
			return second(op.Wait(ctx))
		},
		efa.ErrClosed: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			require.NoError(t, a.ep.Close())
			return a.ep.Send(ctx, a.peer, nil)
		},
		efa.ErrBadState: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return a.ep.Enable(ctx)
		},
		efa.ErrDomain: func(t *testing.T) error {
			a, b := lab{}.open(t)
			return second(a.dom.NewEndpoint(efa.EndpointConfig{AV: b.av}))
		},
		efa.ErrNoCQ: func(t *testing.T) error {
			a, _ := newPair(t, efa.DomainConfig{})
			return second(a.ep.PostSend(&efa.SendReq{To: a.peer}))
		},
		efa.ErrTruncated: func(t *testing.T) error {
			a, b := lab{}.open(t)
			op := start(t, a, &efa.SendReq{To: a.peer, Buf: make([]byte, 2)})
			err := second(b.ep.Recv(ctx, make([]byte, 1)))
			done(t, op)
			return err
		},
		efa.ErrNoRx: func(t *testing.T) error {
			a, _ := lab{ep: efa.EndpointConfig{Direct: true, Protocol: efa.ProtocolConfig{RNRRetry: 1}}}.open(t)
			return a.ep.Send(ctx, a.peer, []byte{1})
		},
		efa.ErrNoMemory: func(t *testing.T) error {
			a := open(t, newDevice(t, newFabric(t, sim.Config{MaxQP: 1})), efa.DomainConfig{})
			require.Equal(t, 1, a.dom.Limits().MaxEndpoints)
			ep, err := a.dom.NewEndpoint(efa.EndpointConfig{AV: a.av})
			require.NoError(t, err)
			defer ep.Close()
			return ep.Enable(ctx)
		},
		efa.ErrAddrNotAvail: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return second(a.av.Insert(efa.Address{}))
		},
		efa.ErrNoMR: func(t *testing.T) error {
			a, _ := lab{dev: sim.DeviceConfig{MaxRegions: 1}}.open(t)
			require.Equal(t, 1, a.dom.Limits().MaxRegions)
			alloc(t, a, 1, 0)
			return second(a.dom.Alloc(1, 0))
		},
		efa.ErrNoMessage: func(t *testing.T) error {
			a, _ := lab{}.open(t)
			return second(a.ep.Peek(ctx))
		},
		efa.ErrAccess: func(t *testing.T) error {
			a, b := lab{}.open(t)
			return a.ep.Memory(a.peer, alloc(t, b, 8, 0).Remote()).Read(ctx, make([]byte, 8))
		},
		efa.ErrNoKey: func(t *testing.T) error {
			a, b := lab{}.open(t)
			require.ErrorIs(t, a.ep.Memory(a.peer, efa.RawRemote(1, 8, 77)).Read(ctx, make([]byte, 8)), efa.ErrAccess)
			for {
				e, err := b.ep.NextEvent(ctx)
				require.NoError(t, err)
				if e.Kind == efa.AccessRefused {
					require.Equal(t, efa.ErrInvalid, efa.Number(e.Err), "libfabric's number for a wrong key")
					return e.Err
				}
			}
		},
	} {
		t.Run(want.Name(), func(t *testing.T) {
			err := call(t)
			require.ErrorIs(t, err, want)
			if want != efa.ErrNoKey {
				require.Equal(t, want, efa.Number(err))
			}
		})
	}
	require.Zero(t, efa.Number(nil))
	require.Equal(t, efa.ErrOther, efa.Number(errors.New("another's")))
	require.Equal(t, efa.ErrConnAborted, efa.Number(fmt.Errorf("so: %w", efa.ErrPeerFailed)))
	require.Equal(t, efa.ErrTimedOut, efa.Number(context.DeadlineExceeded))
	require.Equal(t, efa.ErrCanceled, efa.Number(context.Canceled))
}

// TestStatusErrors: every status with which a device may end a packet or a read, as the
// operation reports it: libfabric's number, the provider's code and its text.
func TestStatusErrors(t *testing.T) {
	for s, want := range map[device.Status]efa.Errno{
		device.StatusQPInternal:      efa.ErrInvalid,
		device.StatusUnsupportedOp:   efa.ErrInvalid,
		device.StatusInvalidAH:       efa.ErrInvalid,
		device.StatusInvalidLKey:     efa.ErrInvalid,
		device.StatusLocalBadLength:  efa.ErrMsgSize,
		device.StatusBadAddress:      efa.ErrAccess, // libfabric's EINVAL is in it too
		device.StatusAbort:           efa.ErrConnAborted,
		device.StatusBadDestQPN:      efa.ErrNotConnected,
		device.StatusRemoteBadLength: efa.ErrMsgSize,
		device.StatusBadStatus:       efa.ErrRemoteIO,
		device.StatusUnresponsive:    efa.ErrConnAborted,
		device.StatusUnknownPeer:     efa.ErrNotConnected,
		device.StatusUnreachable:     efa.ErrHostUnreach,
		device.StatusMismatch:        efa.ErrInvalid,
	} {
		for _, wr := range []device.WR{device.WRSend, device.WRRead} {
			t.Run(fmt.Sprintf("%d %v", wr, s), func(t *testing.T) {
				ctx := testContext(t)
				f := newFabric(t, sim.Config{InOrder: true})
				sides := [2]*side{}
				for i := range sides {
					d, err := f.OpenDevice(sim.DeviceConfig{RDMARead: true, MinReadWrite: 1})
					require.NoError(t, err)
					sides[i] = newEndpoint(t, domainOn(t, d, efa.DomainConfig{}), efa.EndpointConfig{})
				}
				a, b := sides[0], sides[1]
				introduce(t, a, b)
				op := start(t, a, &efa.SendReq{To: a.peer})
				require.NoError(t, second(b.ep.Recv(ctx, nil)))
				done(t, op) // both know each other
				require.NoError(t, b.ep.Send(ctx, b.peer, nil, efa.Inject))
				require.NoError(t, second(a.ep.Recv(ctx, nil)))
				m := alloc(t, b, 1<<16, efa.AccessRemoteRead)
				require.NoError(t, second(f.AddRule(sim.Rule{Fault: sim.FaultStatus, Status: s, WRs: []device.WR{wr}, From: endOf(a)})))
				var err error
				if wr == device.WRRead {
					err = a.ep.Memory(a.peer, m.Remote()).Read(ctx, alloc(t, a, 1<<16, 0).Bytes())
				} else {
					err = a.ep.Send(ctx, a.peer, []byte{1})
				}
				require.ErrorIs(t, err, want)
				var oe *efa.OpError
				require.ErrorAs(t, err, &oe)
				code := efa.Provider(s)
				if s == device.StatusUnresponsive {
					code = 4124
				}
				require.Equal(t, code, oe.Provider)
				require.ErrorContains(t, err, code.String())
				require.Equal(t, s.Gone(), errors.Is(err, efa.ErrPeerFailed))
			})
		}
	}
}

// endOf is a side's place on a simulated fabric.
func endOf(s *side) sim.Endpoint {
	raw, _ := s.ep.Address().Raw("sim")
	return sim.Endpoint{GID: raw.GID(), QPN: raw.QPN()}
}
