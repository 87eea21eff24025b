package launch_test

import (
	"encoding/binary"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/freeport"
)

// TestStrangersAtTheRendezvous: 3,000 silent connections and HELLOs of another version, from
// before the first rank calls until the end, neither hold up nor end a job without a
// secret, and rank 0's log stays short.
func TestStrangersAtTheRendezvous(t *testing.T) {
	port := freeport.Get(t)
	addr := "127.0.0.1:" + strconv.Itoa(port)
	vars := func(rank int) []string {
		return []string{"EFACTOR_DEVICE=shm", "EFACTOR_RANK=" + strconv.Itoa(rank), "EFACTOR_SIZE=3", "EFACTOR_RENDEZVOUS=" + addr}
	}
	var reports []report
	var out string
	var zero sync.WaitGroup
	zero.Go(func() { reports, out = each(t, 1, "ring", vars) })

	open := func() net.Conn {
		var conn net.Conn
		require.Eventually(t, func() (up bool) {
			var err error
			conn, err = net.Dial("tcp", addr)
			return err == nil
		}, time.Minute, time.Millisecond)
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	for i := range 3000 {
		conn := open()
		if i%10 == 0 {
			_, _ = conn.Write(helloOfVersion(9)) // it may have been dropped
		}
	}
	others, said := each(t, 2, "ring", func(rank int) []string { return vars(rank + 1) })
	zero.Wait()
	out += said
	reports = append(reports, others...)
	require.Len(t, reports, 3, "%s", out)
	for _, r := range reports {
		assert.Empty(t, r.Err, "%s", out)
		assert.Less(t, r.Took, time.Minute)
	}
	assert.Less(t, strings.Count(out, "refused a connection"), 20, "%s", out)
}

// helloOfVersion is a HELLO of another version of the rendezvous.
func helloOfVersion(v uint16) []byte {
	b := binary.BigEndian.AppendUint16([]byte("efactor-join"), v)
	return append(binary.BigEndian.AppendUint32(nil, uint32(1+len(b))), append([]byte{1}, b...)...)
}
