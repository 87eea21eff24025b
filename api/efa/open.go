package efa

import (
	"context"

	"github.com/efactor/efactor/internal/errtext"
)

// Setup says what OpenEndpoint makes. Its zero value works.
type Setup struct {
	Fabric Config
	Domain DomainConfig
	// Endpoint may leave out both queues: then there is one for all that is posted.
	Endpoint EndpointConfig
}

// OpenEndpoint makes an endpoint and all that it needs, and enables it: a Fabric, a
// Domain, an AddressVector and a Queue, which are its own. [Endpoint.Close] closes them
// with it; memory regions that were made of the Domain, and further endpoints on it, must
// be closed before. The zero Setup is shared memory between the processes of this host.
func OpenEndpoint(ctx context.Context, s Setup) (*Endpoint, error) {
	o := &owned{}
	ep, err := o.open(ctx, s)
	if err != nil {
		return nil, errtext.Join(err, o.close())
	}
	ep.owned = o
	return ep, nil
}

// owned is what is closed with an endpoint, as far as it was made.
type owned struct {
	ep    *Endpoint
	av    *AddressVector
	queue *Queue
	dom   *Domain
	fab   *Fabric
}

func (o *owned) open(ctx context.Context, s Setup) (*Endpoint, error) {
	var err error
	if o.fab, err = Open(s.Fabric); err != nil {
		return nil, err
	}
	if o.dom, err = o.fab.OpenDomain(s.Domain); err != nil {
		return nil, err
	}
	cfg := s.Endpoint
	if cfg.AV == nil {
		o.av = o.dom.NewAddressVector()
		cfg.AV = o.av
	}
	if cfg.SendQueue == nil && cfg.RecvQueue == nil {
		if o.queue, err = o.dom.NewQueue(0); err != nil {
			return nil, err
		}
		cfg.SendQueue, cfg.RecvQueue = o.queue, o.queue
	}
	if o.ep, err = o.dom.NewEndpoint(cfg); err != nil {
		return nil, err
	}
	return o.ep, o.ep.Enable(ctx)
}

// close closes what there is; again, if something was still in use.
func (o *owned) close() error {
	var errs []error
	if o.ep != nil {
		errs = append(errs, o.ep.end(context.Background()))
	}
	if o.av != nil {
		errs = append(errs, o.av.Close())
	}
	if o.queue != nil {
		errs = append(errs, o.queue.Close())
	}
	if o.dom != nil {
		errs = append(errs, o.dom.Close())
	}
	if o.fab != nil {
		errs = append(errs, o.fab.Close())
	}
	return errtext.Join(errs...)
}
