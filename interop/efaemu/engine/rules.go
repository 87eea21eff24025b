package engine

// Names of the engine's findings (package finding); Rules explains them.
const (
	RuleWQEReserved  = "wqe-reserved"
	RuleWQEPhase     = "wqe-phase"
	RuleWQEFlags     = "wqe-flags"
	RuleWQEOp        = "wqe-op"
	RuleWQEInline    = "wqe-inline"
	RuleWQESGE       = "wqe-sge"
	RuleWQELength    = "wqe-length"
	RuleWQEAH        = "wqe-ah"
	RuleWQELKey      = "wqe-lkey"
	RuleWQERange     = "wqe-range"
	RuleWQEMemory    = "wqe-memory"
	RuleSQState      = "sq-state"
	RuleSQDoorbell   = "sq-doorbell"
	RuleSQOverrun    = "sq-overrun"
	RuleSQBatch      = "sq-batch"
	RuleRQState      = "rq-state"
	RuleRQDoorbell   = "rq-doorbell"
	RuleRQOverrun    = "rq-overrun"
	RuleRxReserved   = "rx-reserved"
	RuleRxFlags      = "rx-flags"
	RuleRxSGE        = "rx-sge"
	RuleRxLKey       = "rx-lkey"
	RuleRxRange      = "rx-range"
	RuleRxMemory     = "rx-memory"
	RuleRxShort      = "rx-short"
	RuleCQDoorbell   = "cq-doorbell"
	RuleCQOverrun    = "cq-overrun"
	RuleCQLength     = "cq-length"
	RuleRemoteRegion = "mr-remote"
)

// Rules explains, for each rule, what was found and what the engine did then.
var Rules = map[string]string{
	RuleWQEReserved:  "bits or bytes of a WQE that must be 0 are not; ignored",
	RuleWQEPhase:     "the phase bit of a WQE is not that of the lap; carried out",
	RuleWQEFlags:     "meta, first, last or comp_req of a WQE is 0; status 2, but without comp_req alone carried out",
	RuleWQEOp:        "the device has no such operation, or not in this form; status 3",
	RuleWQEInline:    "more inline data than the device takes; status 6",
	RuleWQESGE:       "more SGEs than the device takes; status 2",
	RuleWQELength:    "longer than the MTU or than RDMA may be, or the sides of RDMA differ in length; status 6",
	RuleWQEAH:        "no such address handle in the protection domain; status 4",
	RuleWQELKey:      "no such lkey in the protection domain, or without the right; status 5",
	RuleWQERange:     "an SGE leaves its memory region; status 5",
	RuleWQEMemory:    "memory of a region in use is not mapped; status 5",
	RuleSQState:      "the send doorbell rang before RTS; looked at in RTS",
	RuleSQDoorbell:   "reserved bits of the send doorbell are not 0; ignored",
	RuleSQOverrun:    "more WQEs than the send queue has entries; with entries lost the queue pair fails",
	RuleSQBatch:      "more WQEs between two doorbells than the device takes (exact doorbells only); carried out",
	RuleRQState:      "the receive doorbell rang before INIT; looked at in INIT",
	RuleRQDoorbell:   "reserved bits of the receive doorbell are not 0; ignored",
	RuleRQOverrun:    "more descriptors than the receive queue has entries; with entries lost the queue pair fails",
	RuleRxReserved:   "bits of a receive descriptor that must be 0 are not; ignored",
	RuleRxFlags:      "first or last of receive descriptors make no sense; a first begins a receive, whatever came before",
	RuleRxSGE:        "more buffers in a receive than its queue was made for; those beyond are not used",
	RuleRxLKey:       "no such lkey in the protection domain, or without local write; status 5 when it is used",
	RuleRxRange:      "a receive buffer leaves its memory region; status 5 when it is used",
	RuleRxMemory:     "memory of a receive buffer is not mapped; status 5",
	RuleRxShort:      "a packet was longer than the receive that it took; status 6",
	RuleCQDoorbell:   "a completion queue's doorbell has reserved bits set or counts completions that never were; ignored",
	RuleCQOverrun:    "more completions than a completion queue has entries (exact doorbells only); the oldest are overwritten",
	RuleCQLength:     "a write with immediate longer than 65535 bytes, in a queue with entries of 16 bytes; cut off",
	RuleRemoteRegion: "a region with remote rights has an iova that is not its address; its rkey cannot be used",
}

// find notes that the program broke a rule.
func (e *Engine) find(rule, where, format string, args ...any) {
	e.stats.Findings++
	e.cfg.Findings.Add(rule, where, format, args...)
}
