package native

import (
	"errors"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/interop/libfabric/party"
)

// otherError is FI_EOTHER: errors of ours that libfabric has no number for.
const otherError = 256

// outcome converts a completion; b is the buffer of received data, if any.
func outcome(c efa.Completion, b *party.Buffer) party.Outcome {
	out := party.Outcome{
		N: c.N, Tag: c.Tag, HasData: c.HasData, Data: c.Data, From: party.NoPeer,
		Protocol: c.Protocol.String(), Content: party.Content{Seed: -1, Bad: -1, Over: -1},
	}
	if c.From != efa.NoAddr {
		out.From = party.Peer(c.From)
	}
	out = failed(out, c.Err)
	return withContent(out, b)
}

func withContent(out party.Outcome, b *party.Buffer) party.Outcome {
	if b == nil {
		return out
	}
	n := out.N
	if out.Errno != 0 && out.Errno != int(efa.ErrTruncated) {
		n = 0
	}
	out.Content = b.Inspect(n)
	return out
}

// failed puts err into out.
func failed(out party.Outcome, err error) party.Outcome {
	if err == nil {
		return out
	}
	out.Errno, out.Text = otherError, err.Error()
	var number efa.Errno
	if errors.As(err, &number) {
		out.Errno = int(number)
	}
	var op *efa.OpError
	if errors.As(err, &op) {
		out.Provider, out.N, out.Lost = int(op.Provider), op.N, op.Lost
	}
	return out
}
