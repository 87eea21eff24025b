package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/runtime/clock"
)

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
