package efa_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
)

func TestAddressText(t *testing.T) {
	for _, s := range []string{
		"shm://[fe80::11ff:fe00:a01]:4711:1804289383",
		"sim://[::1]:0:0",
		"efa://[fe80::1]:65535:4294967295;shm://[fe80::2]:1:2",
	} {
		a, err := efa.ParseAddress(s)
		require.NoError(t, err)
		require.Equal(t, s, a.String())
		var x struct{ A, Nowhere efa.Address }
		x.A = a
		text, err := json.Marshal(x)
		require.NoError(t, err)
		y := struct{ A, Nowhere efa.Address }{Nowhere: a}
		require.NoError(t, json.Unmarshal(text, &y))
		require.True(t, a.Equal(y.A))
		require.True(t, y.Nowhere.IsZero())
		require.False(t, a.Equal(y.Nowhere))
	}
	a, err := efa.ParseAddress("fi_addr_efa://[fe80::1]:7:8")
	require.NoError(t, err)
	require.Equal(t, "efa://[fe80::1]:7:8", a.String())
	_, ok := a.Raw("efa")
	require.True(t, ok)
	_, ok = a.Raw("shm")
	require.False(t, ok)
	require.True(t, efa.Address{}.IsZero())

	for _, s := range []string{
		"", ";", "shm", "://[::1]:1:2", "shm://", "shm://[::1]", "shm://[::1]:1", "shm://::1:1:2", "shm://[::1]:65536:2",
		"shm://[::1]:1:4294967296", "shm://[::1%eth0]:1:2", "shm://[1.2.3.4]:1:2", "shm://[::1]:1:2;", "shm://[::1]:-1:2",
		"s m://[::1]:1:2", "SHM://[::1]:1:2", "shm://[::1]:1:2\n", strings.Repeat("shm://[::1]:1:2;", 16) + "shm://[::1]:1:2",
	} {
		_, err := efa.ParseAddress(s)
		require.ErrorIs(t, err, efa.ErrInvalid, "%q", s)
	}
}

// FuzzParseAddress: what is accepted comes back the same from its text, which is
// one word.
func FuzzParseAddress(f *testing.F) {
	f.Add("shm://[fe80::11ff:fe00:a01]:4711:1804289383")
	f.Add("fi_addr_efa://[fe80::1]:7:8;sim://[::ffff:1.2.3.4]:0:0")
	f.Add("shm://[::1]:1:2;;")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := efa.ParseAddress(s)
		if err != nil {
			require.ErrorIs(t, err, efa.ErrInvalid)
			require.True(t, a.IsZero())
			return
		}
		text := a.String()
		require.NotContains(t, text, " ")
		require.NotContains(t, text, "\n")
		b, err := efa.ParseAddress(text)
		require.NoError(t, err)
		require.True(t, a.Equal(b))
		require.Equal(t, text, b.String())
	})
}
