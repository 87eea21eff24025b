//go:build linux

package inproc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// queues is a client with the objects that a queue pair needs.
type queues struct {
	*client
	r      *rig
	pd, cq uint64
}

func (r *rig) queues(t testing.TB) *queues {
	t.Helper()
	c := r.ready(t)
	return &queues{client: c, r: r, pd: must(c.pd()), cq: must(c.createCQ(r, cqWant{entries: 256})).handle}
}

// qp makes a queue pair.
func (q *queues) qp(w qpWant) qpMade {
	q.t.Helper()
	m, err := q.createQP(q.pd, q.cq, q.cq, w)
	require.NoError(q.t, err)
	return m
}

// try makes a queue pair and destroys it again.
func (q *queues) try(w qpWant) func(*client) error {
	return func(c *client) error {
		m, err := c.createQP(q.pd, q.cq, q.cq, w)
		if err == nil {
			require.NoError(c.t, c.destroy(abi.ObjectQP, m.handle))
		}
		return err
	}
}

// fits is the driver's part for these depths, in WQEs of 64 bytes.
func fits(c abi.QPCap) *abi.CreateQP {
	up := func(n uint32) uint32 {
		p := uint32(1)
		for p < n {
			p *= 2
		}
		return p
	}
	cmd := &abi.CreateQP{SQSize: up(c.MaxSendWR) * 64}
	if n := c.MaxRecvWR * c.MaxRecvSGE; n > 0 {
		cmd.RQSize = up(n) * 16
	}
	return cmd
}

func TestRefusedQueuePairs(t *testing.T) {
	r := newRig(t, profile.Default())
	q := r.queues(t)
	caps := func(sw, rw, ss, rs, inline uint32) func(*client) error {
		c := abi.QPCap{MaxSendWR: sw, MaxRecvWR: rw, MaxSendSGE: ss, MaxRecvSGE: rs, MaxInline: inline}
		return q.try(qpWant{caps: &c, cmd: fits(c)})
	}
	cmd := func(m abi.CreateQP) func(*client) error {
		if m.SQSize == 0 {
			m.SQSize = 16 * 64
		}
		if m.RQSize == 0 {
			m.RQSize = 16 * 16
		}
		return q.try(qpWant{cmd: &m, cmdLen: abi.CreateQPLen})
	}
	kind := func(k uint64) func(*client) error { return q.try(qpWant{kind: k}) }
	more := func(a ...attr) func(*client) error { return q.try(qpWant{more: a}) }
	run(t, q.client, []misuse{
		{"as it should be", q.try(qpWant{}), nil},
		{"datagrams", kind(abi.QPTypeUD), nil},
		{"reliable connected", kind(abi.QPTypeRC), unix.EOPNOTSUPP},
		{"unreliable connected", kind(abi.QPTypeUC), unix.EOPNOTSUPP},
		{"XRC, sending", kind(abi.QPTypeXRCInitiator), unix.EOPNOTSUPP},
		{"XRC, receiving", kind(abi.QPTypeXRCTarget), unix.EINVAL},
		{"raw packets", kind(abi.QPTypeRawPacket), unix.EPERM},
		{"unknown type", kind(77), unix.EINVAL},
		{"type of 64 bits", kind(1<<32 | abi.QPTypeDriver), unix.EINVAL},
		{"no pd", q.try(qpWant{skip: abi.CreateQPPD}), unix.ENOENT},
		{"no send cq", q.try(qpWant{skip: abi.CreateQPSendCQ}), unix.ENOENT},
		{"no receive cq", q.try(qpWant{skip: abi.CreateQPRecvCQ}), unix.ENOENT},
		{"no number wanted", q.try(qpWant{skip: abi.CreateQPRespNumber}), unix.EINVAL},
		{"unknown pd", func(c *client) error {
			_, err := c.createQP(77, q.cq, q.cq, qpWant{})
			return err
		}, unix.ENOENT},
		{"pd as cq", func(c *client) error {
			_, err := c.createQP(q.pd, q.pd, q.cq, qpWant{})
			return err
		}, unix.EINVAL},
		{"shared receive queue", more(obj(abi.CreateQPSRQ, q.cq)), unix.EINVAL},
		{"all signalled", more(u32(abi.CreateQPFlags, abi.QPAllSignalled)), nil},
		{"another flag", more(u32(abi.CreateQPFlags, 1<<11)), unix.EOPNOTSUPP},
		{"unknown flag", more(u32(abi.CreateQPFlags, 1<<3)), unix.EINVAL},
		{"another flag of datagrams", q.try(qpWant{kind: abi.QPTypeUD, more: []attr{u32(abi.CreateQPFlags, 1<<8)}}), unix.EINVAL},
		{"another flag of RC", q.try(qpWant{kind: abi.QPTypeRC, more: []attr{u32(abi.CreateQPFlags, 1<<1)}}), unix.EINVAL},
		{"own number", more(u32(abi.CreateQPSourceQPN, 5)), unix.EOPNOTSUPP},
		{"async file that is none", more(obj(abi.CreateQPAsync, 1<<20)), unix.EBADF},

		{"most sends", caps(4096, 16, 2, 1, 0), nil},
		{"too many sends", caps(4097, 16, 2, 1, 0), unix.EINVAL},
		{"most receives", caps(16, 32768, 2, 1, 0), nil},
		{"too many receives", caps(16, 32769, 2, 1, 0), unix.EINVAL},
		{"too many descriptors", caps(16, 32768, 2, 2, 0), unix.EINVAL},
		{"most segments", caps(16, 16, 2, 2, 0), nil},
		{"segments of a send", caps(16, 16, 3, 1, 0), unix.EINVAL},
		{"segments of a receive", caps(16, 16, 2, 3, 0), unix.EINVAL},
		{"inline", caps(16, 16, 2, 1, 32), nil},
		{"too much inline", caps(16, 16, 2, 1, 33), unix.EINVAL},
		{"receives nothing", caps(16, 0, 2, 0, 0), nil},
		{"depths are rounded up", caps(17, 33, 2, 1, 0), nil},
		{"sends nothing", func(c *client) error {
			caps := abi.QPCap{MaxRecvWR: 16, MaxRecvSGE: 1}
			return q.try(qpWant{caps: &caps, cmd: &abi.CreateQP{RQSize: 256}})(c)
		}, nil},

		{"comp mask", cmd(abi.CreateQP{CompMask: 1}), unix.EINVAL},
		{"driver's type", cmd(abi.CreateQP{DriverType: 1}), unix.EOPNOTSUPP},
		{"send queue too small", cmd(abi.CreateQP{SQSize: 8 * 64}), unix.EINVAL},
		{"send queue too large", cmd(abi.CreateQP{SQSize: 32 * 64}), unix.EINVAL},
		{"receive queue too small", cmd(abi.CreateQP{RQSize: 8 * 16}), unix.EINVAL},
		{"receive queue too large", cmd(abi.CreateQP{RQSize: 32 * 16}), unix.EINVAL},
		{"zeros that this kernel doesn't know", cmd(abi.CreateQP{}), nil},
		{"flags that this kernel doesn't know", cmd(abi.CreateQP{Flags: 1}), unix.EINVAL},
		{"level that this kernel doesn't know", cmd(abi.CreateQP{ServiceLevel: 8}), unix.EINVAL},
		{"driver's input too short", q.try(qpWant{cmdLen: 15}), unix.EINVAL},
	})
	live := r.Stats()
	assert.Zero(t, live.QueuePairs)
	found, n := r.findings.Take()
	require.Equal(t, 2, n, "%v", found) // the two of the most
	assert.Equal(t, "cq-overflow", found[0].Rule)
	require.NoError(t, q.destroy(abi.ObjectPD, q.pd), "no use is left")
	q.close()
}

func TestRefusedNewestQueuePairs(t *testing.T) {
	r := newRig(t, named(t, "rdma-write"))
	q := r.queues(t)
	wide := func(inline, sq uint32) func(*client) error {
		return q.try(qpWant{
			caps: &abi.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInline: inline},
			cmd:  &abi.CreateQP{SQSize: sq, RQSize: 256}, cmdLen: abi.CreateQPLen,
		})
	}
	cmd := func(m abi.CreateQP) func(*client) error {
		m.SQSize, m.RQSize = 16*64, 256
		return q.try(qpWant{cmd: &m, cmdLen: abi.CreateQPLen})
	}
	run(t, q.client, []misuse{
		{"as before", q.try(qpWant{}), nil},
		{"WQEs of 128 bytes", wide(80, 16*128), nil},
		{"of 128 for 32 bytes", wide(32, 16*128), nil},
		{"too much inline", wide(81, 16*128), unix.EINVAL},
		{"too much for 64 bytes", wide(33, 16*64), unix.EINVAL},
		{"unsolicited writes", cmd(abi.CreateQP{Flags: abi.QPUnsolicitedWrite}), nil},
		{"wide ids", cmd(abi.CreateQP{Flags: abi.QPWideIDs}), unix.EOPNOTSUPP},
		{"low latency", cmd(abi.CreateQP{ServiceLevel: abi.ServiceLowLatency}), nil},
		{"another level", cmd(abi.CreateQP{ServiceLevel: 3}), unix.EINVAL},
		{"reserved", cmd(abi.CreateQP{Reserved: [5]byte{1}}), unix.EINVAL},
		{"unknown pd of a region", func(c *client) error {
			_, err := c.reg(abi.RegMR{PD: 77})
			return err
		}, unix.ENOENT},
		{"wide ids of a cq", func(c *client) error {
			_, err := c.createCQ(r, cqWant{cmd: abi.CreateCQ{Flags: abi.CQWideIDs}})
			return err
		}, unix.EOPNOTSUPP},
	})
	uhw := make([]byte, abi.DeviceRespLen)
	require.NoError(t, q.command(abi.CmdQueryDeviceEx, make([]byte, 8), make([]byte, 304), uhw))
	assert.EqualValues(t, 0x6f, le.Uint32(uhw[20:]))
	q.close()

	r = newRig(t, named(t, "strict"))
	q = r.queues(t)
	assert.Equal(t, unix.EINVAL, q.try(qpWant{})(q.client), "below the least size")
	assert.NoError(t, q.try(qpWant{cmd: &abi.CreateQP{SQSize: 32 * 64, RQSize: 256}})(q.client))
	q.close()
}

// Every transition with every set of attributes that it might take.
func TestTransitions(t *testing.T) {
	r := newRig(t, profile.Default())
	q := r.queues(t)
	states := []abi.QPState{abi.QPReset, abi.QPInit, abi.QPRTR, abi.QPRTS, abi.QPSQD, abi.QPError}
	masks := []struct {
		name string
		bits uint32
	}{
		{"-", 0},
		{"pkey,port,qkey", abi.AttrPkey | abi.AttrPort | abi.AttrQKey},
		{"pkey,port", abi.AttrPkey | abi.AttrPort},
		{"pkey", abi.AttrPkey},
		{"port", abi.AttrPort},
		{"qkey", abi.AttrQKey},
		{"psn", abi.AttrSQPSN},
		{"psn,rnr", abi.AttrSQPSN | abi.AttrRNRRetry},
		{"psn,qkey,rnr", abi.AttrSQPSN | abi.AttrQKey | abi.AttrRNRRetry},
		{"rnr", abi.AttrRNRRetry},
		{"notify", abi.AttrSQDNotify},
	}
	var got strings.Builder
	for _, kind := range []uint64{abi.QPTypeDriver, abi.QPTypeUD} {
		fmt.Fprintf(&got, "type %d\n", kind)
		for _, from := range states {
			for to := abi.QPReset; to <= abi.QPError; to++ {
				var allowed []string
				for _, m := range masks {
					qp := q.qp(qpWant{kind: kind})
					q.bring(qp.handle, from)
					err := q.modify(abi.ModifyQP{
						Handle: uint32(qp.handle), Mask: abi.AttrState | m.bits, State: to, Port: 1, QKey: 1, RNRRetry: 3,
					})
					if err == nil {
						allowed = append(allowed, m.name)
						require.Equal(t, to, q.query(qp.handle, abi.AttrState).State)
					} else {
						require.Equal(t, unix.EINVAL, err)
						require.Equal(t, from, q.query(qp.handle, abi.AttrState).State)
					}
					require.NoError(t, q.destroy(abi.ObjectQP, qp.handle))
				}
				if len(allowed) > 0 {
					fmt.Fprintf(&got, "  %v -> %v: %s\n", from, to, strings.Join(allowed, " | "))
				}
			}
		}
	}
	assert.Equal(t, `type 255
  RESET -> RESET: -
  RESET -> INIT: pkey,port,qkey
  INIT -> RESET: -
  INIT -> INIT: - | pkey,port,qkey | pkey,port | pkey | port | qkey
  INIT -> RTR: - | pkey | qkey
  INIT -> ERR: -
  RTR -> RESET: -
  RTR -> RTS: psn | psn,rnr | psn,qkey,rnr
  RTR -> ERR: -
  RTS -> RESET: -
  RTS -> RTS: - | qkey
  RTS -> SQD: - | notify
  RTS -> ERR: -
  SQD -> RESET: -
  SQD -> RTS: - | qkey
  SQD -> SQD: - | pkey | qkey
  SQD -> ERR: -
  ERR -> RESET: -
  ERR -> ERR: -
type 4
  RESET -> RESET: -
  RESET -> INIT: pkey,port,qkey
  INIT -> RESET: -
  INIT -> INIT: - | pkey,port,qkey | pkey,port | pkey | port | qkey
  INIT -> RTR: - | pkey | qkey
  INIT -> ERR: -
  RTR -> RESET: -
  RTR -> RTS: psn
  RTR -> ERR: -
  RTS -> RESET: -
  RTS -> RTS: - | qkey
  RTS -> SQD: - | notify
  RTS -> ERR: -
  SQD -> RESET: -
  SQD -> RTS: - | qkey
  SQD -> SQD: - | pkey | qkey
  SQD -> ERR: -
  ERR -> RESET: -
  ERR -> ERR: -
`, got.String())
	q.close()
}

func TestRefusedModify(t *testing.T) {
	r := newRig(t, profile.Default())
	q := r.queues(t)
	fresh, rtr, rts := q.qp(qpWant{}), q.qp(qpWant{}), q.qp(qpWant{})
	q.bring(rtr.handle, abi.QPRTR)
	q.bring(rts.handle, abi.QPRTS)
	with := func(m abi.ModifyQP, change func(*abi.ModifyQP)) func(*client) error {
		return func(c *client) error {
			change(&m)
			return c.modify(m)
		}
	}
	onInit := func(change func(*abi.ModifyQP)) func(*client) error { return with(toInit(fresh.handle, 1), change) }
	onRTS := func(change func(*abi.ModifyQP)) func(*client) error { return with(toRTS(rtr.handle), change) }
	cur := func(s abi.QPState) func(*client) error {
		return onRTS(func(m *abi.ModifyQP) { m.Mask |= abi.AttrCurState; m.CurState = s })
	}
	run(t, q.client, []misuse{
		{"no such queue pair", onInit(func(m *abi.ModifyQP) { m.Handle = 99 }), unix.EINVAL},
		{"a cq", onInit(func(m *abi.ModifyQP) { m.Handle = uint32(q.cq) }), unix.EINVAL},
		{"other port", onInit(func(m *abi.ModifyQP) { m.Port = 2 }), unix.EINVAL},
		{"other pkey", onInit(func(m *abi.ModifyQP) { m.PkeyIndex = 1 }), unix.EOPNOTSUPP},
		{"privileged qkey", onInit(func(m *abi.ModifyQP) { m.QKey = 1 << 31 }), unix.EPERM},
		{"unknown state", onInit(func(m *abi.ModifyQP) { m.State = 7 }), unix.EINVAL},
		{"unknown present state", onInit(func(m *abi.ModifyQP) { m.Mask |= abi.AttrCurState; m.CurState = 9 }), unix.EINVAL},
		{"attribute of other drivers", onInit(func(m *abi.ModifyQP) { m.Mask |= abi.AttrAccess }), unix.EOPNOTSUPP},
		{"path", onInit(func(m *abi.ModifyQP) { m.Mask |= abi.AttrDestQPN }), unix.EOPNOTSUPP},
		{"unknown attribute", onInit(func(m *abi.ModifyQP) { m.Mask |= 1 << 25 }), unix.EOPNOTSUPP},
		{"no queue key", onInit(func(m *abi.ModifyQP) { m.Mask &^= abi.AttrQKey }), unix.EINVAL},
		{"driver's input", func(c *client) error {
			m := toInit(fresh.handle, 1)
			return c.command(abi.CmdModifyQP, m.Append(nil), nil, nil, in(abi.AttrUHWIn, []byte{1}))
		}, unix.EINVAL},
		{"retries beyond 7", onRTS(func(m *abi.ModifyQP) { m.Mask |= abi.AttrRNRRetry; m.RNRRetry = 8 }), unix.EINVAL},
		{"present state RESET", cur(abi.QPReset), unix.EINVAL},
		{"present state ERR", cur(abi.QPError), unix.EINVAL},
		{"wrong present state", cur(abi.QPSQD), unix.EINVAL},
		{"wrong present state, otherwise allowed", with(toRTS(rts.handle), func(m *abi.ModifyQP) {
			m.Mask, m.CurState = abi.AttrState|abi.AttrCurState, abi.QPSQD
		}), unix.EINVAL},
		{"another qkey", onRTS(func(m *abi.ModifyQP) { m.Mask |= abi.AttrQKey; m.QKey = 5 }), unix.EOPNOTSUPP},
		{"present state", cur(abi.QPRTR), nil},
		{"query with an attribute of other drivers", func(c *client) error {
			m := abi.QueryQP{Handle: uint32(rts.handle), Mask: abi.AttrAccess}
			return c.command(abi.CmdQueryQP, m.Append(nil), make([]byte, abi.QueryQPRespLen), nil)
		}, unix.EOPNOTSUPP},
		{"query of nothing", func(c *client) error {
			m := abi.QueryQP{Handle: 99}
			return c.command(abi.CmdQueryQP, m.Append(nil), make([]byte, abi.QueryQPRespLen), nil)
		}, unix.EINVAL},
		{"reserved bytes", func(c *client) error {
			m := toInit(fresh.handle, 1)
			b := m.Append(nil)
			b[3] = 1
			return c.command(abi.CmdModifyQP, b, nil, nil)
		}, nil},
	})
	found, n := r.findings.Take()
	require.Equal(t, 1, n)
	assert.Equal(t, "reserved", found[0].Rule)

	// From RESET it may begin anew.
	reset := abi.ModifyQP{Handle: uint32(rts.handle), Mask: abi.AttrState, State: abi.QPReset}
	require.NoError(t, q.modify(reset))
	assert.Zero(t, q.query(rts.handle, abi.AttrQKey).QKey)
	q.bring(rts.handle, abi.QPRTS)
	q.close()

	old := newRig(t, named(t, "efa0"))
	q = old.queues(t)
	qp := q.qp(qpWant{})
	assert.EqualValues(t, 1, qp.RecvSubCQ)
	q.bring(qp.handle, abi.QPRTR)
	m := toRTS(qp.handle)
	m.Mask |= abi.AttrRNRRetry
	assert.Equal(t, unix.EOPNOTSUPP, q.modify(m), "a device without that")
	q.close()
}
