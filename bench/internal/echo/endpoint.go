package echo

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/efactor/efactor/api/efa"
)

// Endpoint is efactor's own: an endpoint of each process over shared memory, with the progress of the plan.
const Endpoint = "efactor"

func openEndpoint(ctx context.Context, p *Plan) (*efa.Endpoint, error) {
	mode, err := efa.ParseProgress(p.Progress)
	if err != nil {
		return nil, err
	}
	return efa.OpenEndpoint(ctx, efa.Setup{Fabric: efa.Config{DeviceName: "shm"}, Domain: efa.DomainConfig{Progress: mode}})
}

// to makes a peer of an address in the form that serveEndpoint prints.
func to(ep *efa.Endpoint, text string) (efa.Addr, error) {
	b, err := hex.DecodeString(text)
	if err != nil {
		return 0, err
	}
	addr, err := efa.ParseAddress(string(b))
	if err != nil {
		return 0, err
	}
	return ep.AddressVector().Insert(addr)
}

func printable(ep *efa.Endpoint) string { return hex.EncodeToString([]byte(ep.Address().String())) }

// serveEndpoint answers one client, whose first message is its address.
func serveEndpoint(ctx context.Context, p Plan, ready func(string)) (err error) {
	ep, err := openEndpoint(ctx, &p)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ep.Close()) }()
	ready(printable(ep))
	message := make([]byte, max(p.Size, maxAddress))
	m, err := ep.Recv(ctx, message)
	if err != nil {
		return err
	}
	client, err := to(ep, string(message[:m.N]))
	if err != nil {
		return err
	}
	for {
		if m, err = ep.Recv(ctx, message); err != nil {
			return err
		}
		if err = ep.Send(ctx, client, message[:m.N]); err != nil {
			return err
		}
	}
}

const maxAddress = 1024

func dialEndpoint(ctx context.Context, p Plan, addr string) (caller, error) {
	ep, err := openEndpoint(ctx, &p)
	if err != nil {
		return nil, err
	}
	c := &endpointCaller{ep: ep, answer: make([]byte, p.Size)}
	if c.server, err = to(ep, addr); err == nil {
		err = ep.Send(ctx, c.server, []byte(printable(ep)))
	}
	if err != nil {
		return nil, errors.Join(err, ep.Close())
	}
	return c, nil
}

type endpointCaller struct {
	ep     *efa.Endpoint
	server efa.Addr
	answer []byte
}

func (c *endpointCaller) call(ctx context.Context, question []byte) ([]byte, error) {
	if err := c.ep.Send(ctx, c.server, question); err != nil {
		return nil, err
	}
	m, err := c.ep.Recv(ctx, c.answer)
	if err == nil && m.N != len(question) {
		err = fmt.Errorf("%w: %d bytes", errAnswer, m.N)
	}
	return c.answer, err
}

func (c *endpointCaller) close() error { return c.ep.Close() }
