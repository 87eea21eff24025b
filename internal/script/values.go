package script

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/efactor/efactor/wire"
)

// Values writes the elements of memory as text: integers and floats as numbers,
// what Go has no type for as bytes.
func Values(d wire.Datatype, b []byte) string {
	size := d.Size()
	if size == 0 {
		return hex.EncodeToString(b)
	}
	var out []string
	for ; len(b) >= size; b = b[size:] {
		out = append(out, value(d, b[:size]))
	}
	if len(b) > 0 {
		out = append(out, hex.EncodeToString(b))
	}
	return strings.Join(out, ",")
}

func value(d wire.Datatype, b []byte) string {
	var n [8]byte
	if copy(n[:], b) < len(b) {
		return hex.EncodeToString(b)
	}
	u := binary.LittleEndian.Uint64(n[:])
	bits := 64 - 8*len(b)
	switch d {
	case wire.DatatypeInt8, wire.DatatypeInt16, wire.DatatypeInt32, wire.DatatypeInt64:
		return fmt.Sprint(int64(u<<bits) >> bits)
	case wire.DatatypeFloat:
		return fmt.Sprint(math.Float32frombits(uint32(u)))
	case wire.DatatypeDouble:
		return fmt.Sprint(math.Float64frombits(u))
	case wire.DatatypeFloatComplex:
		return hex.EncodeToString(b)
	default:
		return fmt.Sprint(u)
	}
}

// ParseValues is the inverse of Values for integers, floats and doubles.
func ParseValues(d wire.Datatype, s string) ([]byte, error) {
	var out []byte
	if s == "" {
		return nil, nil
	}
	for f := range strings.SplitSeq(s, ",") {
		var u uint64
		switch d {
		case wire.DatatypeFloat, wire.DatatypeDouble:
			v, err := strconv.ParseFloat(f, 64)
			if err != nil {
				return nil, err
			}
			if u = math.Float64bits(v); d == wire.DatatypeFloat {
				u = uint64(math.Float32bits(float32(v)))
			}
		default:
			v, err := strconv.ParseInt(f, 0, 64)
			if err != nil {
				return nil, err
			}
			u = uint64(v)
		}
		out = append(out, binary.LittleEndian.AppendUint64(nil, u)[:min(8, d.Size())]...)
	}
	return out, nil
}

// Datatype finds a datatype by its name.
func Datatype(name string) (wire.Datatype, error) {
	for d := wire.DatatypeInt8; d <= wire.DatatypeBFloat16; d++ {
		if d.String() == name {
			return d, nil
		}
	}
	return 0, fmt.Errorf("script: no datatype %s", name)
}

// AtomicOp finds an atomic operation by its name.
func AtomicOp(name string) (wire.AtomicOp, error) {
	for op := wire.OpMin; op <= wire.OpDiff; op++ {
		if op.String() == name {
			return op, nil
		}
	}
	return 0, fmt.Errorf("script: no atomic operation %s", name)
}
