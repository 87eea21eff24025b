package peer

import (
	"log/slog"

	"github.com/efactor/efactor/wire"
)

// Who a peer is, as people read it: its handle and name as in errors, and its address as
// efa.Address has it, whose scheme is the kind of the device.

// URI is the peer's address with the kind of device that leads to it.
func (l *Link) URI() string { return l.env.URI(&l.Addr, l.Path) }

// NameOf is what the address vector calls the peer, "" if it is not in it or has no name.
func (l *Link) NameOf() string { return l.env.name(l.Handle) }

// URI is an address on one of the endpoint's paths.
func (e *Env) URI(a *wire.RawAddr, path uint8) string {
	if int(path) >= len(e.Paths) {
		return a.String()
	}
	return a.URI(e.Paths[path].Kind)
}

func (e *Env) name(handle uint64) string {
	if e.Names == nil || handle == Unlisted {
		return ""
	}
	return e.Names(handle)
}

// LogOf is the endpoint's log for what concerns a peer, which every line names: its handle and
// name if it is in the address vector, and its address. nil is nobody. Not for the hot path.
func (e *Env) LogOf(l *Link) *slog.Logger {
	if l == nil {
		return e.Log
	}
	args := []any{"address", e.URI(&l.Addr, l.Path)}
	if l.Handle != Unlisted {
		args = append(args, "peer", l.Handle)
		if name := e.name(l.Handle); name != "" {
			args = append(args, "name", name)
		}
	}
	return e.Log.With(args...)
}
