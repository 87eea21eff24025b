package hostlist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// expand returns all names, in the order of the list.
func expand(list string) (hosts []string, err error) {
	err = each(list, func(name string) { hosts = append(hosts, name) })
	return hosts, err
}

func TestExpand(t *testing.T) {
	for _, c := range []struct{ list, want string }{
		{"n0", "n0"},
		{"n[0-1]", "n0 n1"},
		{"node[08-11]", "node08 node09 node10 node11"},
		{"node[1,3-4,007]", "node1 node3 node4 node007"},
		{"login1,node[1-2],gpu-a.cluster", "login1 node1 node2 gpu-a.cluster"},
		{"rack[1-2]n[0-1]", "rack1n0 rack1n1 rack2n0 rack2n1"},
		{"n[1-2]-ib", "n1-ib n2-ib"},
		{"[1-2]", "1 2"},
		{"a[1]b[2]c[3]", "a1b2c3"},
		{"n[9-10]", "n9 n10"},
		{"n[3-3]", "n3"},
	} {
		got, err := expand(c.list)
		require.NoError(t, err, c.list)
		assert.Equal(t, c.want, strings.Join(got, " "), c.list)
		first, n, err := First(c.list)
		require.NoError(t, err)
		assert.Equal(t, got[0], first, c.list)
		assert.Equal(t, len(got), n, c.list)
	}
	for list, want := range map[string]int{"a,a": 1, "n[1-2],n2,m,n[1,1]": 3} {
		_, n, err := First(list)
		require.NoError(t, err, list)
		assert.Equal(t, want, n, "different names of %s", list)
	}
}

func TestMalformed(t *testing.T) {
	for _, list := range []string{
		"", ",", "a,", ",a", "a,,b", "n[", "n[1", "n]", "n1]", "n[]", "n[1-]", "n[-1]", "n[2-1]", "n[a]", "n[1,]", "n[[1]]", "n[1-2-3]",
		"n[+1]", "n[0x1]", "n[1234567890]", "a b", "a\nb", "n;m", "ä", "n[0-999999999]", "n[0-9999]m[0-9999]",
		"n[0-65535],m", strings.Repeat("n[1]", 20), strings.Repeat("a", 300), "(null)", "a/b", "a:1",
	} {
		_, err := expand(list)
		assert.ErrorIs(t, err, ErrList, "%q", list)
		_, _, err = First(list)
		assert.ErrorIs(t, err, ErrList, "%q", list)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("login1,node[01-03,7],rack[1-2]n[0-3]")
	f.Add("n[0-9999]m[0-9]")
	f.Fuzz(func(t *testing.T, list string) {
		if len(list) > 200 {
			return
		}
		hosts, err := expand(list)
		if err != nil {
			return
		}
		require.NotEmpty(t, hosts)
		for _, h := range hosts[:min(len(hosts), 100)] {
			again, err := expand(h)
			require.NoError(t, err, h)
			require.Equal(t, []string{h}, again)
		}
	})
}
