// Package ope holds the operations: a [Txe] is one message being sent, an [Rxe]
// one being received (libfabric's efa_rdm_ope). Each is an actor, spawned in
// slabs and armed again for the next operation, around two pure machines: [Tx] or
// [Rx] decides what may be posted or granted and when an operation is finished,
// [Caller] has what the application still holds of it; the actors build packets,
// copy data and complete.
//
//	eager     TXE_REQ --post--> acked
//	medium    TXE_REQ --post x n--> acked
//	long-CTS  TXE_REQ --post--> (CTS --> OPE_SEND --CTSDATA...-->)* acked
//
// Start reading at tx.go, rx.go and caller.go, the machines, then txe.go and rxe.go.
package ope
