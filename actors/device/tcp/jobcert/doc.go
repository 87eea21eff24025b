// Package jobcert holds the certificates by which queue pairs of the tcp device
// authenticate each other over TLS, from a secret that the processes of a job share or
// from the caller, and the rules by which both sides accept each other.
//
//	secret --HKDF--> authority (the same in every process)
//	                   '-- signs --> leaf of a queue pair: its raw address, a key of its own
//
// [FromSecret] makes an [Authority], which issues each queue pair its [Credentials];
// [FromConfig] makes Credentials of a certificate that the caller has. For both:
//
//   - TLS 1.3, certificates on both sides, no session tickets, and the application
//     protocol must match: nothing weaker is accepted from the other side, nor from
//     the caller's configuration.
//   - The chain is verified by both sides, and [Credentials.Verify] compares the leaf
//     with the raw address that the other side claims. A certificate of the job must
//     carry that address as a URI (see [AddrURI]); one of the caller's authorities must
//     carry it, or the IP address that is its GID.
//
// All processes of a job trust each other: a process that has the secret can act as any
// of its queue pairs. The secret must be random, since anyone who can connect sees a
// certificate and may then try secrets offline.
//
// Certificates of a job are valid from 1970 to 9999, the end of RFC 5280, 4.1.2.5, so hosts
// need not agree on the time. A shorter validity would protect nothing: a holder of the
// secret can sign another certificate, and each leaf's key dies with its process. The
// secret itself is limited in time: a new job has a new one.
//
// [Authority.Launch] is for processes of the same job that have no queue pair yet, for
// the rendezvous that forms the group. Neither kind of certificate is accepted in place
// of the other.
//
// Start reading at authority.go, then credentials.go.
package jobcert
