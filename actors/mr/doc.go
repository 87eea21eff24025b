// Package mr holds a domain's memory regions: what the shards ask when a packet
// names memory of ours (efa_rma_iov, §3.3), and when an operation wants to know
// whether its buffer is registered.
//
// A region has a name on each path, the address and keys that the path's device gave it;
// a packet names memory by the name on the path that it came by.
//
//	any goroutine                          a shard
//	     |                                    |
//	Table.Add, Region.Retire       Table.Resolve, Table.Find
//	     | copies a branch                    | loads
//	     +------> immutable snapshot <--------+
//
// # Life of a region
//
//	Table.Add ---> live --- Retire ---> retired, in use --- last Done ---> idle
//	                |                                                       ^
//	                +------------- Retire, not in use ----------------------+
//
// A lookup promises nothing about the next moment: the owner may retire the
// region from another goroutine. A caller that touches the memory calls
// [Region.Use] first, and goes on only if it reports true; the memory then stays until
// [Region.Done]. Once a retired region is idle its OnIdle is called, once, and
// the owner closes the device's region and gives up the memory.
//
// # Invariants
//
//   - Resolve, Find, Use and Done allocate nothing and take no lock.
//   - After Retire returned, no lookup finds the region and no Use succeeds.
//   - No number from the wire is added to another before it was checked.
//   - The table holds each region's memory by its slice; numeric addresses are for
//     comparing only.
//
// Start reading at [Table.Resolve] and [Region.Retire].
package mr
