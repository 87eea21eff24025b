package agent

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/efactor/efactor/interop/libfabric/party"
)

type region struct {
	a      *Agent
	number int
	at     party.Remote
}

var accessNames = []struct {
	bit  party.Access
	name string
}{
	{party.AccessSend, "send"},
	{party.AccessRecv, "recv"},
	{party.AccessRemoteRead, "remoteread"},
	{party.AccessRemoteWrite, "remotewrite"},
}

// Region implements party.Party.
func (a *Agent) Region(ctx context.Context, size int, access party.Access) (party.Region, error) {
	var names []string
	for _, n := range accessNames {
		if access&n.bit != 0 {
			names = append(names, n.name)
		}
	}
	w, err := a.proc.call(ctx, fmt.Sprintf("region size=%d access=%s", size, strings.Join(names, ",")))
	if err != nil {
		return nil, err
	}
	at := party.Remote{Addr: w.uint("addr"), Len: uint64(size), Key: w.uint("key")}
	return &region{a: a, number: w.int("region", -1), at: at}, nil
}

// call is about this region.
func (r *region) call(ctx context.Context, verb, format string, args ...any) (words, error) {
	return r.a.proc.call(ctx, fmt.Sprintf("%s region=%d", verb, r.number)+fmt.Sprintf(format, args...))
}

func (r *region) Remote() party.Remote { return r.at }

func (r *region) Fill(ctx context.Context, off, n, seed int) error {
	_, err := r.call(ctx, "fill", " off=%d len=%d seed=%d", off, n, seed)
	return err
}

func (r *region) Clear(ctx context.Context) error {
	_, err := r.call(ctx, "fill", "")
	return err
}

func (r *region) Check(ctx context.Context, off, n int) (party.Content, error) {
	w, err := r.call(ctx, "check", " off=%d len=%d", off, n)
	return w.content(), err
}

func (r *region) Set(ctx context.Context, off int, b []byte) error {
	_, err := r.call(ctx, "set", " off=%d hex=%s", off, hex.EncodeToString(b))
	return err
}

func (r *region) Get(ctx context.Context, off, n int) ([]byte, error) {
	w, err := r.call(ctx, "get", " off=%d len=%d", off, n)
	return w.bytes("hex"), err
}

func (r *region) Close(ctx context.Context) error {
	_, err := r.call(ctx, "unregister", "")
	return err
}
