package peer

import (
	"log/slog"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
	"github.com/efactor/efactor/actors/machine"
)

// TestEveryPair steps each machine with each event in each state: the table is obeyed, and a pair
// without an entry is a violation that changes nothing.
func TestEveryPair(t *testing.T) {
	env := &Env{Log: slog.New(slog.DiscardHandler), Paths: []Path{{}}}
	for s := range Life(numLives) {
		for e := range LifeEvent(numLifeEvents) {
			env.Steps, env.Counters.Violations = Steps{}, 0
			l := &Link{env: env, Handle: Unlisted, load: load{life: s}}
			want := lifeTable[s][e]
			require.Equal(t, want.ok, l.live(e), "%s in state %s", e, s)
			if !want.ok {
				want.next = s
			}
			require.Equal(t, want.next, l.load.life, "%s in state %s", e, s)
			require.EqualValues(t, 1, env.Steps.life[machine.Entry(uint8(s), uint8(e))]+env.Counters.Violations)
		}
	}
	for s := range Place(numPlaces) {
		for e := range Move(numMoves) {
			env.Steps, env.Counters.Violations = Steps{}, 0
			l := &Link{env: env, Handle: Unlisted, place: s}
			want := placeTable[s][e]
			if l.Move(e); !want.ok {
				want.next = s
			}
			require.Equal(t, want.next, l.place, "%s in state %s", e, s)
			require.EqualValues(t, 1, env.Steps.place[machine.Entry(uint8(s), uint8(e))]+env.Counters.Violations)
		}
	}
}

// TestEveryStateIsReached: from the first state all others are reached, and only the last ones have no
// way on.
func TestEveryStateIsReached(t *testing.T) {
	lives, ends := map[Life]bool{Live: true}, []Life(nil)
	for range numLives {
		for s := range lives {
			for _, n := range lifeTable[s] {
				if n.ok {
					lives[n.next] = true
				}
			}
		}
	}
	for s := range Life(numLives) {
		if lifeTable[s] == [machine.Events]lifeNext{} {
			ends = append(ends, s)
		}
	}
	require.Len(t, lives, numLives)
	require.Equal(t, []Life{Buried}, ends)

	places, last := map[Place]bool{PlaceNew: true}, []Place(nil)
	for range numPlaces {
		for s := range places {
			for _, n := range placeTable[s] {
				if n.ok {
					places[n.next] = true
				}
			}
		}
	}
	for s := range Place(numPlaces) {
		if placeTable[s] == [machine.Events]placeNext{} {
			last = append(last, s)
		}
	}
	require.Len(t, places, numPlaces)
	require.Equal(t, []Place{PlaceEvicted, PlaceReplaced}, last)
}

// TestLifeSaysWhatIsTaken: what the states mean for new operations and for packets.
func TestLifeSaysWhatIsTaken(t *testing.T) {
	for _, x := range []struct {
		life                       Life
		takes, mayReturn, isBuried bool
	}{
		{Live, true, false, false},
		{Owing, false, false, false},
		{Failing, false, true, false},
		{Returning, false, true, false},
		{Away, false, true, false},
		{Buried, false, false, true},
	} {
		l := &Link{load: load{life: x.life}}
		require.Equal(t, x.takes, l.Takes(), x.life)
		require.Equal(t, x.mayReturn, l.MayReturn(), x.life)
		require.Equal(t, x.isBuried, l.Buried(), x.life)
		require.Equal(t, x.life == Live || x.life == Away, l.Idle(), x.life)
	}
}

// TestIdle: whatever is in progress with a peer, it is not idle. A field that is added to load is one more.
func TestIdle(t *testing.T) {
	fields := reflect.TypeFor[load]()
	some := load{
		members: new(Member), line: new(Turn), refused: new(device.Pke), blocked: new(Blocked), owed: new(pendingControl),
		orphans: new(orphans), charged: 1, awaited: 1, runt: 1, out: 1, putOff: 1, early: 1, parts: 1,
		flags: probing, life: Owing,
	}
	for i := range fields.NumField() {
		l := new(Link)
		require.True(t, l.Idle())
		from, to := reflect.ValueOf(&some).Elem().Field(i), reflect.ValueOf(&l.load).Elem().Field(i)
		require.False(t, from.IsZero(), "%s has no value here", fields.Field(i).Name)
		reflect.NewAt(to.Type(), to.Addr().UnsafePointer()).Elem().Set(reflect.NewAt(from.Type(), from.Addr().UnsafePointer()).Elem())
		require.False(t, l.Idle(), fields.Field(i).Name)
	}
}

// TestVerdicts: which failures are final. A verdict over a peer that lives is final only where the device
// can refuse what the peer sends.
func TestVerdicts(t *testing.T) {
	for _, x := range []struct {
		err             error
		refuses, cannot bool
	}{
		{ErrDied, true, true},
		{ErrLeft, true, true},
		{ErrRemoved, true, true},
		{ErrReplaced, true, true},
		{ErrStopped, true, true},
		{ErrSilent, false, false},
		{errPending, false, false},
		{&StatusError{Status: device.StatusUnresponsive, Peer: true}, false, false},
		{ErrIntruder, true, false},
		{ErrOverMemory, true, true},
		{ErrRestarted, true, false},
	} {
		l := &Link{env: &Env{Paths: []Path{{HoldsBack: true}, {}}}}
		require.Equal(t, x.refuses, l.isFinal(x.err), x.err)
		l.Path = 1
		require.Equal(t, x.cannot, l.isFinal(x.err), x.err)
	}
}
