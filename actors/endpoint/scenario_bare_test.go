package endpoint_test

import (
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/script"
)

// bare has a message without headers arrive; false: no receive is posted for it.
func (s *scenario) bare(from *script.Remote, fields []string) bool {
	vals := map[string]int{"seed": 1}
	for _, f := range fields {
		name, v, _ := strings.Cut(f, "=")
		n, err := strconv.ParseInt(v, 0, 64)
		require.NoError(s.t, err, f)
		vals[name] = int(n)
	}
	b := make([]byte, vals["len"])
	script.Fill(b, 0, vals["seed"])
	imm, has := vals["imm"]
	return s.rig.ArriveBare(from, b, has, uint32(imm))
}
