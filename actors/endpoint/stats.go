package endpoint

import (
	"reflect"

	"github.com/efactor/efactor/actors/ope"
	"github.com/efactor/efactor/wire"
)

// EachStat calls f for every counter of e, always in the same order: those of its peers and
// operations (peer.Counters), of its device queue ("Queue." and device.QueueCounters), of its
// operations' machines ("tx.", "rx." and "caller.", then "STATE event"), its operations in progress (TxInUse, those whose
// data leaves from here, and RxInUse), the bytes of unexpected messages and of packets
// out of order (MemoryHeld, and MemoryPeak, the most so far), and its domain's registrations of
// plain memory ("Plain." and mr.CacheStats). Runs on the shard.
func (e *Endpoint) EachStat(f func(name string, n uint64)) {
	eachField("", reflect.ValueOf(&e.env.Counters).Elem(), f)
	eachField("Queue.", reflect.ValueOf(&e.queue.Counters).Elem(), f)
	e.pools.Steps.Each(func(machine, state, event string, n uint64) {
		f(machine+"."+state+" "+event, n)
	})
	var tx, rx uint64
	e.pools.EachTx(func(*ope.Txe) { tx++ })
	e.pools.EachRx(func(*ope.Rxe) { rx++ })
	f("TxInUse", tx)
	f("RxInUse", rx)
	f("MemoryHeld", uint64(e.env.Mem.Held))
	f("MemoryPeak", uint64(e.env.Mem.Peak))
	if c := e.cfg.Plain; c != nil {
		s := c.Stats()
		eachField("Plain.", reflect.ValueOf(&s).Elem(), f)
	}
}

// eachField calls f for the numbers in a struct. An array in it is indexed by packet type;
// its zeros are left out.
func eachField(prefix string, v reflect.Value, f func(string, uint64)) {
	for i := range v.NumField() {
		name, x := prefix+v.Type().Field(i).Name, v.Field(i)
		if x.Kind() != reflect.Array {
			f(name, x.Uint())
			continue
		}
		for t := range x.Len() {
			if n := x.Index(t).Uint(); n > 0 {
				f(name+"."+wire.Type(t).String(), n)
			}
		}
	}
}
