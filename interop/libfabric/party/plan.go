package party

import "math/bits"

// Planned is the kind of a flood's operation.
type Planned uint8

// The kinds.
const (
	PlanMessage Planned = iota
	PlanTagged
	PlanWrite // and read it back
	PlanAdd   // to the counter behind the places
)

// Plan is one operation of a flood.
type Plan struct {
	What                                   Planned
	Size, Seed                             int
	Delivered, HasData, Inject, Registered bool
	Pieces                                 int
	Data                                   uint64
}

func splitmix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// logUniform is 0 to most, each power of two as likely.
func logUniform(which, within uint64, most int) int {
	b := which % uint64(bits.Len(uint(most))+1)
	if b == 0 {
		return 0
	}
	low := uint64(1) << (b - 1)
	return int(min(low+within%low, uint64(most)))
}

// MakePlan plans operation k: testdata/agent/plan.c has the same for the other side.
func MakePlan(seed, k uint64, most, inject int) Plan {
	draw := func(j uint64) uint64 { return splitmix(seed*0x9e3779b97f4a7c15 + k*8 + j) }
	f := draw(3)
	p := Plan{
		What:       PlanAdd,
		Size:       logUniform(draw(1), draw(2), most),
		Seed:       int(draw(4) % Modulus),
		Data:       draw(5) & 0xffffffff,
		HasData:    f&7 == 0,
		Delivered:  f>>3&3 == 0,
		Registered: f>>5&1 == 1,
		Pieces:     1,
	}
	switch what := draw(0) % 100; {
	case what < 45:
		p.What = PlanMessage
	case what < 80:
		p.What = PlanTagged
	case what < 92:
		p.What = PlanWrite
	}
	if f>>6&7 == 0 && p.Size >= 3 {
		p.Pieces = 3
	}
	p.Inject = f>>9&3 == 0 && p.Size <= inject && !p.Delivered && p.Pieces == 1
	if p.What == PlanWrite && p.Size == 0 {
		p.Size = 1
	}
	return p
}

// Sum is of the first n operations, to compare two makers.
func Sum(seed uint64, n, most, inject int) uint64 {
	bit := map[bool]uint64{true: 1}
	sum := uint64(0)
	for k := range uint64(n) {
		p := MakePlan(seed, k, most, inject)
		sum = splitmix(sum ^ uint64(p.Size))
		sum = splitmix(sum ^ p.Data<<8 ^ uint64(p.Seed))
		sum = splitmix(sum ^ (uint64(p.What)<<8 | uint64(p.Pieces)<<4 | bit[p.HasData]<<3 |
			bit[p.Delivered]<<2 | bit[p.Registered]<<1 | bit[p.Inject]))
	}
	return sum
}

// Additions is the sum that n operations add to the counter.
func Additions(seed uint64, n, most, inject int) (sum uint64) {
	for k := range uint64(n) {
		if MakePlan(seed, k, most, inject).What == PlanAdd {
			sum += k + 1
		}
	}
	return sum
}
