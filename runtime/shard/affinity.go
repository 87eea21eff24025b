package shard

import (
	"fmt"
	"os"
	"sync/atomic"

	"github.com/efactor/efactor/runtime/sys"
)

// nextCPU spreads the pinned shards of a process over its CPUs.
var nextCPU atomic.Uint32

// pin binds the calling thread to one CPU of those that the process may use. If any are
// wanted, it is one of them.
func pin(wanted []int) error {
	var allowed sys.CPUSet
	if err := sys.SchedGetaffinity(os.Getpid(), &allowed); err != nil {
		return fmt.Errorf("shard: sched_getaffinity: %w", err)
	}
	cpus := choices(&allowed, wanted)
	if len(cpus) == 0 {
		return fmt.Errorf("shard: none of the CPUs %v may be used by this process", wanted)
	}
	cpu := cpus[int(nextCPU.Add(1)-1)%len(cpus)]
	var one sys.CPUSet
	one.Set(cpu)
	if err := sys.SchedSetaffinity(0, &one); err != nil {
		return fmt.Errorf("shard: sched_setaffinity to CPU %d: %w", cpu, err)
	}
	return nil
}

// choices lists the CPUs that are allowed and wanted, in the order wanted; if
// none are named, from the highest, since the lowest take most interrupts.
func choices(allowed *sys.CPUSet, wanted []int) (cpus []int) {
	for _, cpu := range wanted {
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	if len(wanted) > 0 {
		return cpus
	}
	for cpu := len(allowed)*64 - 1; cpu >= 0; cpu-- {
		if allowed.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// osYield lets another thread of this CPU run, without the Go scheduler.
func osYield() { sys.Yield() }
