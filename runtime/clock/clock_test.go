package clock_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

func TestManualNeverGoesBack(t *testing.T) {
	var m clock.Manual
	require.Equal(t, clock.Time(0), m.Now())
	require.Equal(t, clock.Time(time.Second), m.Advance(time.Second))
	m.Set(clock.Time(time.Minute))
	require.Equal(t, clock.Time(time.Minute), m.Now())
	m.Set(clock.Time(time.Second))
	m.Advance(-time.Second)
	require.Equal(t, clock.Time(time.Minute), m.Now())
	require.Equal(t, time.Minute, m.Now().Sub(0))
}

func TestManualConcurrently(t *testing.T) {
	var m clock.Manual
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 1000 {
				m.Advance(1)
				m.Set(clock.Time(i))
			}
		})
	}
	wg.Wait()
	require.GreaterOrEqual(t, m.Now(), clock.Time(1000))
	require.LessOrEqual(t, m.Now(), clock.Time(4000+999))
}

func TestSystemMovesOn(t *testing.T) {
	a := clock.System.Now()
	for clock.System.Now() == a {
	}
	require.Greater(t, clock.System.Now(), a)
}

func TestAlarm(t *testing.T) {
	rang := make(chan struct{}, 100)
	a := clock.NewAlarm(func() { rang <- struct{}{} })
	defer a.Stop()
	a.Once(time.Hour)
	a.Once(time.Microsecond) // instead
	<-rang
	a.Every(time.Microsecond)
	for range 5 {
		<-rang
	}
	a.Every(0)
	for len(rang) > 0 { // one call may still be under way
		<-rang
	}
	a.Once(time.Millisecond)
	<-rang
	require.LessOrEqual(t, len(rang), 1)
}
