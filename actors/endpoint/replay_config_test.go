package endpoint_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
	"github.com/efactor/efactor/actors/era"
	"github.com/efactor/efactor/actors/settings"
	"github.com/efactor/efactor/internal/golden"
	"github.com/efactor/efactor/internal/script"
	"github.com/efactor/efactor/wire"
)

// newReplay opens the endpoint with the settings of its side in the scenario.
func newReplay(t *testing.T, s *golden.Scenario, side string) *replay {
	r := &replay{
		t: t, s: s, side: side, keys: 1 << 16,
		left: map[uint32]bool{}, mine: map[uint32]uint32{}, ids: map[uint32]bool{},
	}
	for _, a := range s.Args {
		if strings.HasPrefix(a, "-") {
			require.Contains(t, []string{"-u", "-p", "-z", "-Z", "-H"}, a, "option of the driver")
		}
	}
	me := r.addr(side)
	info := device.Info{
		GID: me.GID(), MTU: s.MTU, CopiesAtPost: true, PartID: 0xefa1, LocalKeys: true, MaxRDMA: 1 << 30,
		RDMARead: r.env("EFASHIM_RDMA_READ", 1) != 0, RDMAWrite: r.env("EFASHIM_RDMA_WRITE", 1) != 0,
		UnsolicitedWrite: r.env("EFASHIM_UNSOLICITED", 1) != 0,
	}
	info.PartID = uint32(r.env("EFASHIM_PART_ID", 0xefa1))
	host, _ := strconv.ParseUint(strings.TrimPrefix(s.Env["EFASHIM_HOST_ID"], "i-0"), 16, 64)
	talk, ok := era.Of(s.Release(side))
	require.True(t, ok, s.Libfabric)
	var err error
	r.rig, err = script.Start(script.Config{
		Info: info,
		Endpoint: endpoint.Config{
			ConnID: me.ConnID(), QPN: me.QPN(),
			Settings: settings.InForce{
				Features: r.features(&info), HostID: host, Era: talk,
				WaitHandshake: slices.Contains(s.Args, "-Z") && talk.Has(wire.FeatureUserRecvQP),
				Settings: settings.Settings{
					MaxMedium:    r.env("FI_EFA_INTER_MAX_MEDIUM_MESSAGE_SIZE", 0),
					Credits:      r.env("FI_EFA_TX_MIN_CREDITS", 0),
					MinRead:      r.env("FI_EFA_INTER_MIN_READ_MESSAGE_SIZE", 0),
					MinReadWrite: r.env("FI_EFA_INTER_MIN_READ_WRITE_SIZE", 0),
					RuntSize:     r.env("FI_EFA_RUNT_SIZE", 0),
					Homogeneous:  slices.Contains(s.Args, "-H"),
				},
			},
		},
	})
	require.NoError(t, err)
	r.rig.Auto = true
	r.other = &script.Remote{Name: r.peer(), Addr: r.addr(r.peer())}
	r.rig.AddRemote(r.other)
	if side == "A" || !slices.Contains(s.Args, "-u") {
		r.rig.Insert(r.other)
	}
	return r
}

// features returns the features of the endpoint on such a device. It advertises those
// that its release knows.
func (r *replay) features(i *device.Info) wire.Features {
	f := new(settings.Settings).Features(i)
	if slices.Contains(r.s.Args, "-z") {
		f.Set(wire.FeatureConstantHeader) // 1.17's receive without copies
	}
	return f
}

// env is a setting of our side's alone, or of both.
func (r *replay) env(name string, def int) int {
	v, ok := r.s.Env[r.side+"_"+name]
	if !ok {
		v, ok = r.s.Env[name]
	}
	if !ok {
		return def
	}
	n, err := strconv.ParseInt(v, 0, 64)
	require.NoError(r.t, err, name)
	return int(n)
}

// registers reports whether the process in our place could register n bytes for its
// device.
func (r *replay) registers(n int) bool {
	const name = "EFASHIM_REG_FAIL_"
	return n > 0 && (n < r.env(name+"MIN", n+1) || n > r.env(name+"MAX", n))
}
