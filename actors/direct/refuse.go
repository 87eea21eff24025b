package direct

import (
	"fmt"
	"math"

	"github.com/efactor/efactor/actors/errno"
	"github.com/efactor/efactor/actors/match"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/actors/ope"
)

// refuse says why there is no request of the device for a request of the application's;
// nil: there is.
func (p *Port) refuse(r *ope.Request) error {
	switch r.Kind {
	case ope.KindSend:
		return p.refuseSend(r)
	case ope.KindWrite, ope.KindRead:
		return p.refuseRDMA(r)
	case ope.KindRecv:
		return refuseRecv(r)
	case ope.KindAtomic:
		return not("atomics")
	case ope.KindPeek, ope.KindClaim, ope.KindTake:
		return not("peek and claim")
	default:
		return errno.ErrInvalid
	}
}

func not(what string) error {
	return fmt.Errorf("%w: an endpoint with Direct has no %s", errno.ErrNotSupported, what)
}

func (p *Port) refuseSend(r *ope.Request) error {
	switch {
	case r.Flags&ope.Fence != 0:
		return not("fences")
	case r.Flags&ope.Tagged != 0:
		return not("tagged messages")
	case r.Flags&ope.Deliver != 0:
		return not("completion level Delivered for messages")
	case len(r.Buf) > p.info.MTU:
		return fmt.Errorf("%w: %d bytes, and without the protocol a message is a packet of %d at most",
			errno.ErrMsgSize, len(r.Buf), p.info.MTU)
	default:
		return refuseData(r)
	}
}

func refuseRecv(r *ope.Request) error {
	switch {
	case r.Flags&ope.Tagged != 0:
		return not("tagged messages")
	case r.Peer != uint64(match.AnySource):
		return not("receives from one peer")
	default:
		return nil
	}
}

// refuseRDMA: what the other side refuses shows as a status.
func (p *Port) refuseRDMA(r *ope.Request) error {
	switch {
	case r.Flags&ope.Fence != 0:
		return not("fences")
	case r.Kind == ope.KindRead && !p.info.RDMARead:
		return fmt.Errorf("%w: %s does not read peers' memory", errno.ErrNotSupported, p.info.Name)
	case r.Kind == ope.KindWrite && !p.info.RDMAWrite:
		return fmt.Errorf("%w: %s does not write peers' memory", errno.ErrNotSupported, p.info.Name)
	case r.Key&mr.EmulatedOnly != 0:
		return fmt.Errorf("%w: the peer's memory is none that devices reach", errno.ErrNotSupported)
	case r.Kind == ope.KindRead && r.Key&mr.EmulatedRead != 0:
		return fmt.Errorf("%w: the peer's memory is not to be read", errno.ErrAccess)
	case len(r.Buf) > p.info.MaxRDMA:
		return fmt.Errorf("%w: %d bytes, and %s moves %d in one request", errno.ErrMsgSize, len(r.Buf), p.info.Name, p.info.MaxRDMA)
	default:
		return refuseData(r)
	}
}

// refuseData: the device carries 32 bits of data.
func refuseData(r *ope.Request) error {
	if r.Flags&ope.HasData != 0 && r.Data > math.MaxUint32 {
		return not("remote CQ data of more than 32 bits")
	}
	return nil
}
