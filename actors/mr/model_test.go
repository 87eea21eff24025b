package mr

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/efactor/efactor/wire"
)

// TestModel compares the table with a list that is searched from the oldest on.
func TestModel(t *testing.T) {
	mem := make([]byte, 64)
	rapid.Check(t, func(t *rapid.T) {
		var (
			table Table
			live  []*Region
		)
		slice := func(t *rapid.T) []byte {
			from := rapid.IntRange(0, len(mem)).Draw(t, "from")
			to := rapid.IntRange(from, len(mem)).Draw(t, "to")
			return mem[from:to:to]
		}
		access := rapid.Map(rapid.IntRange(0, int(everything)), func(a int) Access { return Access(a) })
		key := rapid.SampledFrom([]uint64{0, 1, 2, 3, 1 << 32, 1<<32 + 1, 1 << 61, 1<<61 + 1})
		addr := rapid.Uint64Range(0, 80)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				// Keys meet here more often than a device would let them.
				dev := &fakeMR{mem: slice(t), addr: addr.Draw(t, "addr"), key: key.Draw(t, "key")}
				if rapid.Bool().Draw(t, "high") {
					dev.addr = -dev.addr
				}
				live = append(live, table.Add(dev, access.Draw(t, "access")))
			},
			"retire": func(t *rapid.T) {
				if len(live) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(live)-1).Draw(t, "index")
				live[i].Retire()
				live = slices.Delete(live, i, i+1)
			},
			"resolve": func(t *rapid.T) {
				iov := wire.RMAIOV{
					Addr: addr.Draw(t, "addr"),
					Len:  rapid.Uint64Range(0, 64).Draw(t, "len"),
					Key:  key.Draw(t, "key"),
				}
				if rapid.Bool().Draw(t, "high") {
					iov.Addr = -iov.Addr
				}
				want := access.Draw(t, "want")
				r, p, err := table.Resolve(0, iov, want)
				wantR, wantP, wantErr := naive(live, iov, want)
				if r != wantR || !errors.Is(err, wantErr) || len(p) != len(wantP) || len(p) > 0 && &p[0] != &wantP[0] {
					t.Fatalf("got %v %v, want %v %v", r, err, wantR, wantErr)
				}
			},
			"find": func(t *rapid.T) {
				p := slice(t)
				r := table.Find(p)
				if r != nil && (len(p) == 0 || !slices.Contains(live, r) || !within(p, r.Bytes())) {
					t.Fatalf("found a region that does not hold it")
				}
				exists := len(p) > 0 && slices.ContainsFunc(live, func(r *Region) bool { return within(p, r.Bytes()) })
				if exists != (r != nil) {
					t.Fatalf("found: %v, exists: %v", r != nil, exists)
				}
			},
			"": func(t *rapid.T) {
				if table.Len() != len(live) {
					t.Fatalf("%d regions, want %d", table.Len(), len(live))
				}
			},
		})
	})
}

// naive resolves without arithmetic that could overflow: it counts.
func naive(live []*Region, iov wire.RMAIOV, want Access) (*Region, []byte, error) {
	i := slices.IndexFunc(live, func(r *Region) bool { return DeviceKey(r.Key(0)) == DeviceKey(iov.Key) })
	if i < 0 {
		return nil, nil, ErrKey
	}
	r := live[i]
	for bit := Access(1); bit <= everything; bit <<= 1 {
		if want&bit != 0 && r.Access()&bit == 0 {
			return nil, nil, ErrRight
		}
	}
	for offset, addr := 0, r.Addr(0); offset <= len(r.Bytes()); offset, addr = offset+1, addr+1 {
		if addr < r.Addr(0) {
			break // behind the end of the address space
		}
		if addr == iov.Addr {
			if left := len(r.Bytes()) - offset; iov.Len <= uint64(left) {
				return r, r.Bytes()[offset:][:iov.Len], nil
			}
		}
	}
	return nil, nil, ErrRange
}
