package endpoint_test

import (
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/ope"
)

// remotePieces has a request name several pieces of a peer's memory, and returns how many
// bytes they have.
//
//	write a to=(buf+0:100,far+50:10)
func (s *scenario) remotePieces(req *ope.Request, places []string) (n int) {
	l := req.TakeLists()
	for _, p := range places {
		e, err := s.rig.Place(p)
		require.NoError(s.t, err)
		l.Remote = append(l.Remote, e)
		n += int(e.Len)
	}
	return n
}

// localPieces has a request take its memory in several pieces, of which those with a region's
// name lie there, and others in plain memory; what it sends is in them.
//
//	send a len=300 bufs=(m+0:100,+150,m+500:50)
func (s *scenario) localPieces(d *datadriven.TestData, req *ope.Request) {
	a, ok := d.Arg("bufs")
	if !ok {
		return
	}
	data, whole := req.Buf, len(req.Buf)
	l := req.TakeLists()
	req.Buf, req.Flags = nil, req.Flags|ope.Pieced
	for _, v := range a.Vals {
		name, rest, _ := strings.Cut(v, "+")
		var p []byte
		if name == "" {
			p = make([]byte, s.number(rest))
		} else {
			off, n, _ := strings.Cut(rest, ":")
			p = s.rig.Region(name).Bytes()[s.number(off):][:s.number(n)]
		}
		if req.Kind != ope.KindRecv && req.Kind != ope.KindRead {
			data = data[copy(p, data):]
		}
		l.AddLocal(p)
	}
	if req.Kind != ope.KindRecv {
		require.Equal(s.t, whole, req.Len(), "%s: len is another", d.Pos)
	}
}

func (s *scenario) number(v string) int {
	n, err := strconv.Atoi(v)
	require.NoError(s.t, err)
	return n
}
