// Package engine is the emulated network card: it watches the doorbells of queue
// pairs whose queues lie in memory that a program has mapped, carries their work
// requests out on a device.Device, and writes completions into completion queues.
//
//	program's memory          supervisor                       fabric
//	SQ (LLQ), doorbells ----> engine.QP --- device.QP.PostSend --> shm, sim, tcp
//	RQ, receive buffers <---- engine.QP <-- device.QP.Poll <-----
//	CQ rings            <---- engine.CQ
//
// It knows queue formats and the semantics of EFA; objects with handles, commands
// and errnos are package kernel's.
package engine
