//go:build linux

package shm

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/actors/device"
)

// A process that is started again at the number of one that was killed gets it also if a third
// one is removing the dead one's files at that moment.
func TestNumberBeingSwept(t *testing.T) {
	dir := fabricDir(t)
	d, err := Open(Config{Dir: dir})
	require.NoError(t, err)
	defer d.Close()
	f := d.(*attachment).directory
	g, err := newGeometry(256, 4)
	require.NoError(t, err)
	start(t, "hold", dir, 1).kill()
	third, err := f.find(segmentName(testQPN))
	require.NoError(t, err)
	defer third.close()
	locked, err := trySweep(third.fd)
	require.NoError(t, err)
	require.True(t, locked)
	require.False(t, third.alive())
	synctest.Test(t, func(t *testing.T) {
		_, err := f.create(g, testQPN, 1) // the third one does not get on with it
		require.ErrorIs(t, err, device.ErrQPNInUse)
		made := make(chan *segment)
		go func() {
			s, err := f.create(g, testQPN, 1)
			if err != nil {
				t.Error(err)
			}
			made <- s
		}()
		synctest.Wait()
		third.close()
		s := <-made
		require.True(t, s != nil && lockedByOther(mustFind(t, f).fd))
		f.remove(s.fd, segmentName(testQPN), s.hdr.gen)
		s.close()
	})
}

func mustFind(t *testing.T, f *directory) *segment {
	s, err := f.find(segmentName(testQPN))
	require.NoError(t, err)
	t.Cleanup(s.close)
	return s
}
