package wire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/internal/golden"
)

// addSeeds adds the hand-made packets, and from the captures the first four of
// each type with each set of flags.
func addSeeds(f *testing.F, add func(b []byte)) {
	for i := range codecCases {
		add(codecCases[i].bytes(f))
	}
	seen := map[[4]byte]int{}
	goldenPackets(f, func(_ *golden.Scenario, p *golden.Packet) {
		base := [4]byte(p.Hex)
		if seen[base]++; seen[base] <= 4 {
			add(p.Hex)
		}
	})
}

// FuzzDecode checks what must hold for any bytes that arrive.
func FuzzDecode(f *testing.F) {
	addSeeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		pkt, n, err := Decode(b)
		connid, hasConnID := connIDOf(b)
		_, _ = rawAddrOf(b)
		require.Equal(t, before, b, "input was changed")
		if err != nil {
			requireParseError(t, err)
			require.Nil(t, pkt)
			require.Zero(t, n)
			return
		}
		require.GreaterOrEqual(t, n, HeaderLen)
		require.LessOrEqual(t, n, len(b))
		require.Equal(t, Type(b[0]), pkt.Type())
		wantConnID, wantHas := connIDOfDecoded(pkt)
		require.Equal(t, wantHas, hasConnID)
		require.Equal(t, wantConnID, connid)

		requirePeeksAgree(t, pkt, b)

		// Encoding is stable, and the struct holds nothing of b.
		clear(b)
		encoded := pkt.Append(nil)
		require.LessOrEqual(t, len(encoded), MaxAppendLen)
		again, m, err := Decode(encoded)
		require.NoError(t, err)
		require.Equal(t, len(encoded), m)
		require.Equal(t, pkt, again)

		// The header alone decodes to the same, a part of it to nothing.
		again, m, err = Decode(before[:n])
		require.NoError(t, err)
		require.Equal(t, n, m)
		require.Equal(t, pkt, again)
		shortest := n
		if _, ok := pkt.(*EOR); ok && !hasConnID {
			shortest = EORShortLen
		}
		_, _, err = Decode(before[: shortest-1 : shortest-1])
		require.ErrorIs(t, err, ErrShort)
	})
}

// FuzzParse gives every struct the bytes under a type of its own, so that the
// fuzzer need not find the first two bytes.
func FuzzParse(f *testing.F) {
	addSeeds(f, func(b []byte) { f.Add(b[2:]) })
	f.Fuzz(func(t *testing.T, rest []byte) {
		for typ := range infos {
			if !Type(typ).Known() {
				continue
			}
			b := append([]byte{byte(typ), Version}, rest...)
			p := packets[infos[typ].family]()
			before := reflect.ValueOf(p).Elem().Interface()
			n, err := parse(p, b)
			if err != nil {
				requireParseError(t, err)
				require.Zero(t, n)
				require.Equal(t, before, reflect.ValueOf(p).Elem().Interface())
				continue
			}
			require.LessOrEqual(t, n, len(b))
			require.Equal(t, Type(typ), p.Type())
			q := packets[infos[typ].family]()
			_, err = parse(q, p.Append(nil))
			require.NoError(t, err)
			require.Equal(t, p, q)
		}
	})
}

// FuzzAppend fills every struct with arbitrary values: Parse of what Append
// wrote must give a struct that is written the same way.
func FuzzAppend(f *testing.F) {
	addSeeds(f, func(b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, values []byte) {
		for fam := famNone + 1; fam <= famRTA; fam++ {
			p := packets[fam]()
			rest := values
			fill(reflect.ValueOf(p).Elem(), &rest)
			b := p.Append(nil)
			q := packets[fam]()
			n, err := parse(q, b)
			require.NoError(t, err)
			require.Equal(t, len(b), n)
			require.Equal(t, p.Type(), q.Type())
			require.Equal(t, b, q.Append(nil))
		}
	})
}

func requireParseError(t *testing.T, err error) {
	t.Helper()
	var pe *ParseError
	require.ErrorAs(t, err, &pe)
	for _, cause := range []error{ErrShort, ErrVersion, ErrType, ErrNotSupported, ErrLength, ErrCount} {
		if errors.Is(err, cause) {
			return
		}
	}
	t.Fatalf("%v has no known cause", err)
}

// fill sets v's fields from *values, within Append's preconditions.
func fill(v reflect.Value, values *[]byte) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), values)
			if strings.HasSuffix(v.Type().Field(i).Name, "IOVCount") {
				v.Field(i).SetUint(v.Field(i).Uint() % (MaxIOV + 1))
			}
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), values)
		}
	case reflect.Bool:
		v.SetBool(take(values, 1)&1 != 0)
	default:
		x := take(values, int(v.Type().Size()))
		if v.Type() == reflect.TypeFor[RTAKind]() {
			x %= uint64(numRTAKinds)
		}
		v.SetUint(x)
	}
}

// take reads n bytes of *values, zeros behind its end.
func take(values *[]byte, n int) uint64 {
	var b [8]byte
	*values = (*values)[copy(b[:n], *values):]
	return le.Uint64(b[:])
}
