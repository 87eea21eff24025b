package endpoint_test

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/cockroachdb/datadriven"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/endpoint"
)

// target has the log say what peers do to memory here, where open is asked for that:
//
//	counts   the data of writes that are counted instead of reported
//	served   accesses that the endpoint has carried out
func (s *scenario) target(d *datadriven.TestData, cfg *endpoint.Config) {
	if a, ok := d.Arg("counts"); ok {
		var values []uint64
		for _, v := range a.Vals {
			n, err := strconv.ParseUint(v, 0, 64)
			require.NoError(s.t, err, d.Pos)
			values = append(values, n)
		}
		cfg.OnCounted = func(n int, data uint64) bool {
			found := slices.Contains(values, data)
			if found {
				s.note("counted len=%d data=0x%x", n, data)
			}
			return found
		}
	}
	if d.HasArg("served") {
		cfg.OnServed = func(x *endpoint.Served) {
			kind := map[bool]string{false: "write", true: "read"}[x.Access == device.RemoteRead]
			more := map[bool]string{true: ", which has data"}[x.HasData]
			s.note("served a %s of %d bytes in %d regions by %s%s", kind, x.N, len(x.Regions), s.rig.NameOf(x.Handle), more)
		}
	}
}

// note adds a line to the log.
func (s *scenario) note(format string, args ...any) {
	s.rig.Log = append(s.rig.Log, fmt.Sprintf(format, args...))
}
