package match

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

var depths = []int{0, 1, 64, 1024, 8192, 65536}

// shapes are receives as applications post them. The i-th of a queue takes the
// message (i, src 1), an untagged one that of source i.
var shapes = []struct {
	name string
	recv func(i int) Recv
}{
	{"exact", func(i int) Recv { return Recv{Kind: Tagged, Tag: uint64(i), Source: 1} }},
	{"anysource", func(i int) Recv { return Recv{Kind: Tagged, Tag: uint64(i), Source: AnySource} }},
	{"masked", func(i int) Recv { return Recv{Kind: Tagged, Tag: uint64(i), Ignore: 0xff << 56, Source: AnySource} }},
	{"wildtag", func(int) Recv { return Recv{Kind: Tagged, Ignore: all, Source: AnySource} }},
	{"untagged", func(i int) Recv { return Recv{Source: Source(i)} }},
	{"mixed", func(i int) Recv {
		r := Recv{Kind: Tagged, Tag: uint64(i), Ignore: uint64(i%2) * (0xff << 56), Source: 1}
		if i/2%2 == 0 {
			r.Source = AnySource
		}
		return r
	}},
}

// BenchmarkMatch is one Post and one Arrive (posted), or one AddMsg and one Post
// (unexpected), while so many others wait. order=same pairs one tag over and over,
// as a latency benchmark does; forward takes the oldest, reverse the newest of those that
// were there before, turn after turn; random also costs cache misses.
func BenchmarkMatch(b *testing.B) {
	for _, shape := range shapes {
		for _, depth := range depths {
			for _, order := range []string{"same", "forward", "reverse", "random"} {
				b.Run(fmt.Sprintf("posted=%d/recv=%s/order=%s", depth, shape.name, order), func(b *testing.B) {
					benchPosted(b, depth, shape.recv, order)
				})
			}
		}
	}
	for _, shape := range shapes {
		for _, depth := range depths {
			for _, order := range []string{"same", "random"} {
				b.Run(fmt.Sprintf("unexpected=%d/recv=%s/order=%s", depth, shape.name, order), func(b *testing.B) {
					benchUnexpected(b, depth, shape.recv, order)
				})
			}
		}
	}
}

// picks returns numbers below n, to be taken in turn over and over.
func picks(n int, order string) []int32 {
	p := make([]int32, max(1, 1<<16/n)*2*n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range p {
		switch order {
		case "same":
			p[i] = int32(n - 1)
		case "forward":
			p[i] = int32(i % n)
		case "reverse":
			if p[i] = int32(i % n); i/n%2 == 0 {
				p[i] = int32(n-1) - p[i]
			}
		case "random": // as a cache doesn't foresee
			p[i] = rng.Int32N(int32(n))
		}
	}
	return p
}

func benchPosted(b *testing.B, depth int, recv func(int) Recv, order string) {
	table := New()
	recvs := make([]Recv, depth+1) // the last is the one more that comes and goes
	for i := range recvs {
		recvs[i] = recv(i)
		recvs[i].Owner = int32(i)
	}
	for i := range depth {
		table.Post(&recvs[i])
	}
	turns, spare := picks(depth+1, order), &recvs[depth]
	kind, i := spare.Kind, 0
	b.ReportAllocs()
	for b.Loop() {
		table.Post(spare)
		tag, src := uint64(turns[i]), Source(1)
		if kind == Untagged {
			tag, src = 0, Source(turns[i])
		}
		if spare = table.Arrive(kind, tag, src); spare == nil {
			b.Fatal("no receive matched")
		}
		if i++; i == len(turns) {
			i = 0
		}
	}
}

func benchUnexpected(b *testing.B, depth int, recv func(int) Recv, order string) {
	table := New()
	msgs := make([]Msg, depth+1)
	recvs := make([]Recv, depth+1)
	for i := range msgs {
		recvs[i] = recv(i)
		msgs[i] = Msg{Kind: recvs[i].Kind, Tag: uint64(i), Source: 1}
		if recvs[i].Kind == Untagged {
			msgs[i].Source = Source(i)
		}
	}
	for i := range depth {
		table.AddMsg(&msgs[i])
	}
	for i := range min(depth, 4) { // one receive of each class, to make the indexes
		table.Find(recvs[i].Kind, 1<<40, recvs[i].Ignore, recvs[i].Source)
	}
	turns, spare := picks(depth+1, order), &msgs[depth]
	i := 0
	b.ReportAllocs()
	for b.Loop() {
		table.AddMsg(spare)
		if spare = table.Post(&recvs[turns[i]]); spare == nil {
			b.Fatal("no message matched")
		}
		if i++; i == len(turns) {
			i = 0
		}
	}
}

// BenchmarkClasses is one Post and one Arrive while receives of so many classes
// wait: the cost that does grow.
func BenchmarkClasses(b *testing.B) {
	for _, classes := range []int{1, 2, 4, 16, 64, 256} {
		b.Run(fmt.Sprintf("classes=%d", classes), func(b *testing.B) {
			table := New()
			for i := range classes {
				table.Post(&Recv{Kind: Tagged, Tag: 1 << 63, Ignore: uint64(i), Source: AnySource})
			}
			r := Recv{Kind: Tagged, Tag: 1, Source: AnySource}
			b.ReportAllocs()
			for b.Loop() {
				table.Post(&r)
				if table.Arrive(Tagged, 1, 1) == nil {
					b.Fatal("no receive matched")
				}
			}
		})
	}
}

// BenchmarkMiss is an arrival that no receive matches.
func BenchmarkMiss(b *testing.B) {
	for _, depth := range depths {
		b.Run(fmt.Sprintf("posted=%d", depth), func(b *testing.B) {
			table := New()
			recvs := make([]Recv, depth)
			for i := range recvs {
				recvs[i] = Recv{Kind: Tagged, Tag: uint64(i), Source: AnySource}
				table.Post(&recvs[i])
			}
			tag := uint64(1 << 40)
			b.ReportAllocs()
			for b.Loop() {
				if table.Arrive(Tagged, tag, 1) != nil {
					b.Fatal("matched")
				}
				tag++
			}
		})
	}
}
