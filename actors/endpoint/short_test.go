package endpoint_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/script"
)

// TestSendersGiveWay: an application that sends again with each completion leaves room
// in the send queue for the operations that wait for it.
func TestSendersGiveWay(t *testing.T) {
	for name, req := range map[string]ope.Request{
		"short": {Kind: ope.KindSend}, "write": {Kind: ope.KindWrite, Addr: 0x1000, Key: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, a := start(t, script.Config{Endpoint: set(settings.Settings{SendQueue: 4})})
			b := addPeer(t, r, "b", 2)
			send := func() {
				req.Peer, req.Buf = a.Handle, script.Pattern(10, r.NextSeed())
				r.Submit(req, r.NextSeed())
			}
			for range 4 {
				send()
			}
			r.Run()
			waits := r.Send(b, 10, 0, 0, 0)
			r.Run()
			r.OnDone = func(op *script.Op) {
				if op.Req.Peer == a.Handle {
					send()
				}
			}
			for range 20 {
				r.QP.Complete(r.QP.Flying()[0], device.StatusOK)
				r.Run()
			}
			require.Equal(t, 1, waits.Ends)
			r.OnDone = nil
			completeAll(r)
		})
	}
}
