package native

import (
	"bytes"
	"context"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/party"
)

type region struct{ mem *efa.MemoryRegion }

var rights = []struct {
	bit  party.Access
	here efa.Access
}{
	{party.AccessSend, efa.AccessSend},
	{party.AccessRecv, efa.AccessRecv},
	{party.AccessRemoteRead, efa.AccessRemoteRead},
	{party.AccessRemoteWrite, efa.AccessRemoteWrite},
}

// Region implements party.Party.
func (n *Node) Region(_ context.Context, size int, a party.Access) (party.Region, error) {
	var access efa.Access
	for _, r := range rights {
		if a&r.bit != 0 {
			access |= r.here
		}
	}
	m, err := n.dom.Alloc(size, access)
	if err != nil {
		return nil, err
	}
	party.Clear(m.Bytes())
	return region{m}, nil
}

func (r region) Remote() party.Remote {
	at := r.mem.Remote()
	addr, key := at.Raw()
	return party.Remote{Addr: addr, Len: at.Len(), Key: key}
}

func (r region) Fill(_ context.Context, off, n, seed int) error {
	party.Fill(r.mem.Bytes()[off:off+n], 0, seed)
	return nil
}

func (r region) Clear(context.Context) error {
	party.Clear(r.mem.Bytes())
	return nil
}

func (r region) Check(_ context.Context, off, n int) (party.Content, error) {
	return party.Inspect(r.mem.Bytes()[off : off+n]), nil
}

func (r region) Set(_ context.Context, off int, b []byte) error {
	copy(r.mem.Bytes()[off:off+len(b)], b)
	return nil
}

func (r region) Get(_ context.Context, off, n int) ([]byte, error) {
	return bytes.Clone(r.mem.Bytes()[off : off+n]), nil
}

func (r region) Close(context.Context) error { return r.mem.Close() }
