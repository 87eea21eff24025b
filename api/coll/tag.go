package coll

// The tag of a message says all that it is about:
//
//	 63  62      52 51          28 27   26         13 12     11            0
//	+---+----------+--------------+-----+------------+-------+--------------+
//	| 1 | context  | sequence     | ack | step       | offer | signature    |
//	+---+----------+--------------+-----+------------+-------+--------------+
//
// context is the group, sequence the collective among those called on it; ack
// answers an offer (see flow.go). Receives take any message with these: those of one
// rank arrive in the order in which they were sent, which is that in which they are
// wanted. step, the message among those of the collective, and signature, a hash of
// the sender's collective, are compared when it has arrived, so that calls that do
// not fit together fail instead of waiting for each other. offer says that the
// message is not the data but where to read it.
const (
	tagOurs      = 1 << 63
	contextShift = 52
	seqShift     = 28
	seqMask      = 1<<24 - 1
	tagAck       = 1 << 27
	stepShift    = 13
	stepMask     = 1<<14 - 1
	tagOffer     = 1 << 12
	signMask     = 1<<12 - 1
	tagAgree     = stepMask<<stepShift | signMask
	tagIgnore    = tagOffer | tagAgree

	maxContexts = 1 << 11
	rootContext = 0

	// seqRevoke is the sequence of no collective, but of revocations.
	seqRevoke = seqMask
)

// tagOf is the tag of a group's collective, without a step.
func tagOf(id, seq uint64) uint64 {
	return tagOurs | id<<contextShift | seq%seqRevoke<<seqShift
}

// revokeTag is the tag of a group's revocations.
func revokeTag(id uint64) uint64 { return tagOurs | id<<contextShift | seqRevoke<<seqShift }

// at is the tag of a step. Steps beyond the field begin anew.
//
// n is how long what is sent is, which both sides must agree about, too: where ranks have
// counts of their own the signature of the collective does not say it.
func (x *call) at(step, n int) uint64 {
	return (x.tag | uint64(step)&stepMask<<stepShift) ^ uint64(n)*spread>>52
}

// spread is odd, and spreads bits to the upper ones.
const spread = 0x9e3779b97f4a7c15

// sign makes the signature of the values about which all ranks must agree.
func sign(k kind, algorithm, root, bytes int) uint64 {
	h := uint64(k)<<16 | uint64(algorithm)<<8
	h = (h + uint64(root)) * spread
	h = (h ^ h>>29 ^ uint64(bytes)) * spread
	return h >> 52
}
