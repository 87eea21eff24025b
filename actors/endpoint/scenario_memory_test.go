package endpoint_test

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/mr"
	"github.com/efactor/efactor/internal/script"
)

// memory carries out a command about memory; false: it is another one.
func (s *scenario) memory(d *datadriven.TestData) (out string, ok bool) {
	switch d.Cmd {
	case "region":
		// Registers memory here for send, recv, read (by peers) and write. local:
		// the device carries no RDMA of others to it.
		//
		//	region m len=1000 for=(send,read) seed=7
		var a script.Rights
		uses, _ := d.Arg("for")
		for _, u := range uses.Vals {
			*map[string]*bool{"send": &a.Send, "recv": &a.Recv, "read": &a.RemoteRead, "write": &a.RemoteWrite}[u] = true
		}
		m, err := s.rig.Register(d.CmdArgs[0].Key, num(d, "len"), a, d.HasArg("local"))
		require.NoError(s.t, err, d.Pos)
		if d.HasArg("seed") {
			script.Fill(m.Bytes(), 0, num(d, "seed"))
		}
	case "export":
		// Gives a part of memory here a key of its own; for names what peers may do.
		//
		//	export m key=7 off=100 len=50 for=(read,write)
		m := s.rig.Region(d.CmdArgs[0].Key)
		part := m.Bytes()[num(d, "off"):][:num(d, "len")]
		var a mr.Access
		uses, _ := d.Arg("for")
		for _, u := range uses.Vals {
			a |= map[string]mr.Access{"read": device.RemoteRead, "write": device.RemoteWrite}[u]
		}
		require.NoError(s.t, s.rig.Regions.Export(m.Region, part, uint64(num(d, "key")), a), d.Pos)
	case "unexport":
		// Takes it back.
		//
		//	unexport m key=7
		require.True(s.t, s.rig.Regions.Unexport(s.rig.Region(d.CmdArgs[0].Key).Region, uint64(num(d, "key"))), d.Pos)
	case "memory":
		// Gives a peer memory that others may access.
		//
		//	memory a buf len=1000 seed=7
		m := s.rig.Share(s.remote(d), d.CmdArgs[1].Key, num(d, "len"), d.HasArg("local"))
		if d.HasArg("seed") {
			script.Fill(m.Bytes, 0, num(d, "seed"))
		}
	case "unmemory":
		// Takes it away: RDMA to it ends with status 7.
		//
		//	unmemory buf
		s.rig.Shared(d.CmdArgs[0].Key).Key = 0
	case "fill":
		// Fills memory, with the part of a message that begins at at, or with
		// numbers.
		//
		//	fill m off=100 len=50 seed=3 at=100
		//	fill m type=INT32 value=(1,2,-3)
		mem := s.bytes(d)[num(d, "off"):]
		if d.HasArg("type") {
			t, err := script.Datatype(s.word(d, "type"))
			require.NoError(s.t, err, d.Pos)
			b, err := script.ParseValues(t, s.word(d, "value"))
			require.NoError(s.t, err, d.Pos)
			copy(mem, b)
			break
		}
		script.Fill(mem[:num(d, "len")], num(d, "at"), num(d, "seed"))
	case "show":
		// Shows memory: stretches of the pattern and of zeros, or numbers.
		//
		//	show m
		//	show m type=INT32 len=12
		mem := s.bytes(d)
		if d.HasArg("len") {
			mem = mem[num(d, "off"):][:num(d, "len")]
		}
		if d.HasArg("type") {
			t, err := script.Datatype(s.word(d, "type"))
			require.NoError(s.t, err, d.Pos)
			return script.Values(t, mem), true
		}
		return stretches(mem), true
	case "revoke":
		// Closes a region.
		//
		//	revoke m
		s.rig.CloseRegion(s.rig.Region(d.CmdArgs[0].Key))
	case "reads", "writes":
		// The device of a peer reads memory here, or writes the pattern to it, with
		// immediate data if imm is given; an access that is not allowed is refused.
		//
		//	reads a m+0:100
		//	writes a m+0:100 seed=5 imm=7
		return s.access(d), true
	default:
		return "", false
	}
	s.rig.Run()
	return "", true
}

func (s *scenario) word(d *datadriven.TestData, name string) string {
	a, _ := d.Arg(name)
	return strings.Join(a.Vals, ",")
}

// bytes is the memory that the first argument names.
func (s *scenario) bytes(d *datadriven.TestData) []byte {
	name := d.CmdArgs[0].Key
	if m := s.rig.Region(name); m != nil {
		return m.Bytes()
	}
	m := s.rig.Shared(name)
	require.NotNil(s.t, m, "%s: no memory %s", d.Pos, name)
	return m.Bytes
}

// access is RDMA of a peer's.
func (s *scenario) access(d *datadriven.TestData) string {
	x := s.remote(d)
	e, err := s.rig.Place(d.CmdArgs[1].Key)
	require.NoError(s.t, err, d.Pos)
	right := device.RemoteRead
	if d.Cmd == "writes" {
		right = device.RemoteWrite
	}
	mem := s.rig.QP.Reach(mr.DeviceKey(e.Key), e.Addr, int(e.Len), right)
	if mem == nil {
		s.rig.QP.RefuseRDMA(x.Addr.GID(), x.Addr.QPN())
		s.rig.Run()
		return "refused"
	}
	if d.Cmd == "reads" {
		return stretches(mem)
	}
	script.Fill(mem, 0, num(d, "seed"))
	if d.HasArg("imm") && !s.rig.QP.Written(x.Addr.GID(), x.Addr.QPN(), len(mem), uint32(num(d, "imm"))) {
		return "no receive posted"
	}
	s.rig.Run()
	return ""
}

// stretches describes memory: from:to and the seed of the pattern, or zeros.
func stretches(b []byte) string {
	var out []string
	for i := 0; i < len(b); {
		j, zero := i, i
		for zero < len(b) && b[zero] == 0 {
			zero++
		}
		for j < len(b) && int(b[j]) == (int(b[i])+j-i)%251 {
			j++
		}
		if zero > j || zero == j && zero == i+1 {
			out = append(out, fmt.Sprintf("%d:%d zero", i, zero))
			i = zero
			continue
		}
		seed := ((int(b[i])-i)%251 + 251) % 251
		out = append(out, strconv.Itoa(i)+":"+strconv.Itoa(j)+" seed="+strconv.Itoa(seed))
		i = j
	}
	return strings.Join(out, "\n")
}
