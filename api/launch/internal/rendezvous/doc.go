// Package rendezvous is a board over TCP that rank 0 serves: all ranks connect to it,
// fences gather their entries, and all ranks get all entries.
//
//	rank r                                 hub, in the process of rank 0
//	HELLO version, job, rank, size  ->
//	                                <-     WELCOME, or REFUSED (another job: try again)
//	FENCE number, entries           ->
//	                                <-     RESULT number, everybody's entries
//	LATE (my time is up)            ->
//	                                <-     ABORT rank, kind, text
//	ABORT rank, kind, text          ->     the same to all others
//	BYE                             ->
//
// A frame is its length (4 bytes, big-endian, without itself), a type, and the rest. HELLO
// up to its version and ABORT are the same in all versions. A connection that breaks before
// BYE ends the job, and the hub names its rank to all others. One that has not sent a valid
// HELLO of this job is refused and counted, and there are never so many of them that a rank
// has no place (type strangers).
//
// With TLS every connection is mutually authenticated before its first frame. Without,
// it must stay on this host unless Config.Insecure is set.
//
// Where to start reading: frame.go (the bytes), hub.go and serve.go (the server), board.go
// (the client, which rank 0 is, too).
package rendezvous
