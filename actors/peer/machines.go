package peer

import "github.com/efactor/efactor/actors/machine"

// Life is where a peer stands with this endpoint.
//
//	            fail              told
//	LIVE <-+ ---------> FAILING --------> AWAY
//	 |  ^  |               | heard          |
//	 |  |  |               v                |
//	 |  |  +- back --- RETURNING            |
//	 |  |                  | back-owing     |
//	 |  | settle           v                |
//	 |  +-------------- OWING <-------------+ back-owing, or back to LIVE
//	 +-- owe ------------^ | fail: FAILING
//
//	any --bury--> BURIED
//
// A peer that has failed may come back: its next packet takes it back, or one of ours that
// reaches it. One that is buried does not: its process or queue pair is gone, another endpoint has
// its place, or this endpoint wants nothing more of it, and its device refuses what it sends.
type Life uint8

// The states.
const (
	Live      Life = iota
	Owing          // it is back, and gets the control packets that it was owed before anything new
	Failing        // it has failed, and not all operations have heard of that
	Returning      // the same, and it was reached meanwhile
	Away           // it has failed, and all operations know
	Buried         // it has failed for good
	numLives  = iota
)

var lifeNames = [numLives]string{"LIVE", "OWING", "FAILING", "RETURNING", "AWAY", "BURIED"}

func (s Life) String() string { return lifeNames[s] }

// LifeEvent is what can happen to it.
type LifeEvent uint8

// The events.
const (
	LifeFail      LifeEvent = iota // it has failed, and may come back
	LifeReached                    // a packet of ours arrived there
	LifeTold                       // all operations have heard that it has failed
	LifeBack                       // it is taken back
	LifeBackOwing                  // it is taken back, and is owed something
	LifeOwe                        // it is owed something
	LifeSettle                     // it has got all that it was owed
	LifeBury                       // it has failed for good
	numLifeEvents = iota
)

var lifeEventNames = [numLifeEvents]string{"fail", "reached", "told", "back", "back-owing", "owe", "settle", "bury"}

func (e LifeEvent) String() string { return lifeEventNames[e] }

type lifeNext struct {
	next Life
	ok   bool
}

// lifeTable is the whole machine: a pair with no entry is a violation.
var lifeTable = [machine.States][machine.Events]lifeNext{
	Live:      {LifeFail: {Failing, true}, LifeOwe: {Owing, true}, LifeBury: {Buried, true}},
	Owing:     {LifeFail: {Failing, true}, LifeSettle: {Live, true}, LifeBury: {Buried, true}},
	Failing:   {LifeReached: {Returning, true}, LifeTold: {Away, true}, LifeBury: {Buried, true}},
	Returning: {LifeBack: {Live, true}, LifeBackOwing: {Owing, true}, LifeBury: {Buried, true}},
	Away:      {LifeBack: {Live, true}, LifeBackOwing: {Owing, true}, LifeBury: {Buried, true}},
}

var lifeMoves = machine.Of(func(s, e int) (uint8, bool) { n := lifeTable[s][e]; return uint8(n.next), n.ok })

// Place is where the endpoint has a peer: in its address vector, in the implicit one, or on the way
// from one to the other. The endpoint's directory moves it.
//
//	         list                    replace, forget
//	NEW -----------> LISTED ---------------------------> REPLACED
//	 |                |  ^ list                             ^
//	 | admit   remove v  |             replace, forget      |
//	 +------------> UNLISTED -------------------------------+
//	 |                ^  | evict                            |
//	 | crowd     room |  +--------> EVICTED                 |
//	 +------------> WAITING -- evict --^ \--- the same -----+
//	 |                ^ crowd                               |
//	 | try            |                    reject           |
//	 +------------> ON_TRIAL -- admit: UNLISTED ------------+
//
// EVICTED and REPLACED are the ends: the actor stops, at once or when its operations are over. An
// evicted peer is remembered (Evicted), and goes on as a new one where it was.
type Place uint8

// The places.
const (
	PlaceNew      Place = iota
	PlaceListed         // in the address vector
	PlaceUnlisted       // in the implicit address vector
	PlaceWaiting        // in neither, for want of room: it is held back, where its device can do that
	PlaceOnTrial        // it claims another's queue pair, and is not known to be there
	PlaceEvicted        // it was idle, and has made room
	PlaceReplaced       // another endpoint has its queue pair, or it was given up
	numPlaces     = iota
)

var placeNames = [numPlaces]string{"NEW", "LISTED", "UNLISTED", "WAITING", "ON_TRIAL", "EVICTED", "REPLACED"}

func (s Place) String() string { return placeNames[s] }

// Move is what the endpoint can do with it.
type Move uint8

// The events.
const (
	MoveInsert  Move = iota // its address is in the address vector
	MoveAdmit               // it is new in the implicit one
	MoveCrowd               // there is no room for it
	MoveRoom                // there is room now
	MoveTry                 // its connid is to be checked
	MoveReject              // it was not there, or has ended
	MoveRemove              // its address is removed
	MoveEvict               // it makes room
	MoveReplace             // another endpoint is at its queue pair
	MoveForget              // it has failed for good
	numMoves    = iota
)

var moveNames = [numMoves]string{
	"insert", "admit", "crowd", "room", "try", "reject", "remove", "evict", "replace", "forget",
}

func (e Move) String() string { return moveNames[e] }

type placeNext struct {
	next Place
	ok   bool
}

// placeTable is the whole machine: a pair with no entry is a violation.
var placeTable = [machine.States][machine.Events]placeNext{
	PlaceNew:    {MoveInsert: {PlaceListed, true}, MoveAdmit: {PlaceUnlisted, true}, MoveCrowd: {PlaceWaiting, true}, MoveTry: {PlaceOnTrial, true}},
	PlaceListed: {MoveRemove: {PlaceUnlisted, true}, MoveReplace: {PlaceReplaced, true}},
	PlaceUnlisted: {
		MoveInsert: {PlaceListed, true}, MoveEvict: {PlaceEvicted, true}, MoveReplace: {PlaceReplaced, true}, MoveForget: {PlaceReplaced, true},
	},
	PlaceWaiting: {
		MoveInsert: {PlaceListed, true}, MoveRoom: {PlaceUnlisted, true}, MoveEvict: {PlaceEvicted, true}, MoveReplace: {PlaceReplaced, true},
		MoveForget: {PlaceReplaced, true},
	},
	PlaceOnTrial: {MoveAdmit: {PlaceUnlisted, true}, MoveCrowd: {PlaceWaiting, true}, MoveReject: {PlaceReplaced, true}},
}

var placeMoves = machine.Of(func(s, e int) (uint8, bool) { n := placeTable[s][e]; return uint8(n.next), n.ok })

// Steps counts what the machines of an endpoint's peers did: how often each event came in each
// state. Written on the shard.
type Steps struct {
	life, place machine.Counts
}

// Each calls f for every pair that the tables allow, whether it ever came or not, in the order of
// states and events.
func (c *Steps) Each(f func(machine, state, event string, n uint64)) {
	c.life.Each(&lifeMoves, func(s, e int, n uint64) { f("life", lifeNames[s], lifeEventNames[e], n) })
	c.place.Each(&placeMoves, func(s, e int, n uint64) { f("place", placeNames[s], moveNames[e], n) })
}
