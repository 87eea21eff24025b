// Package libfabric tests efactor against a real libfabric: Debian's, unmodified,
// with its EFA provider on the emulated device of interop/efaemu. An efactor endpoint
// of the test process is on the same fabric, in shared memory.
//
//	test process                            process of its own
//	scenario ── native.Node                 agent (C, libfabric's public interface)
//	   │           │  efactor, tap             │  libfabric, EFA provider, rdma-core
//	   │           └──── shm fabric ◀── efaemu ┘
//	   └── agent.Agent ── stdin, stdout ───────┘
//
// A scenario (scenario_*_test.go) is data and a function over two parties, an
// initiator and the other one; it is played with libfabric in either place, with the
// devices and settings of environments_test.go. The tap records the packets that were
// sent: a scenario that is to prove long-CTS messages fails if there was no
// LONGCTS_RTM.
//
//	go test ./interop/libfabric                         everything, one seed each
//	go test ./interop/libfabric -short                  a small part
//	go test ./interop/libfabric -run TestSeeds -seeds 50
//	go test ./interop/libfabric -run TestSeeds -for 30m
//	go test ./interop/libfabric -run TestMatrix -write  the table in docs/interop.md
//
// The requirements of the tests (gcc, libfabric-dev, libfabric-bin, a kernel for the
// emulator) may be missing: then they are skipped with the reason, and fail where
// CI=true.
//
// Start reading at world_test.go, then scenario_message_test.go.
package libfabric
