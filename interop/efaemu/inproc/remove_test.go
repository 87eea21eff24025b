//go:build linux

package inproc_test

import (
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/efactor/efactor/actors/device/uverbs/abi"
	"github.com/efactor/efactor/interop/efaemu/inproc"
	"github.com/efactor/efactor/interop/efaemu/kernel"
	"github.com/efactor/efactor/interop/efaemu/profile"
)

// A removed device notifies its programs, and nothing but closing works any more.
func TestRemove(t *testing.T) {
	r := newRig(t, profile.Default())
	q := r.queues(t)
	file := os.NewFile(uintptr(q.async()), "async")
	qp := q.qp(qpWant{})
	q.bring(qp.handle, abi.QPRTS)
	db, err := q.f.Mmap(int64(qp.SQDoorbellKey), 4096, unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	db[0] = 1

	r.Remove()
	r.Remove()
	var b [abi.AsyncEventLen]byte
	_, err = io.ReadFull(file, b[:])
	require.NoError(t, err)
	var e abi.AsyncEvent
	require.NoError(t, e.Parse(b[:]))
	assert.EqualValues(t, abi.EventDeviceFatal, e.Type)
	_, err = file.Read(b[:])
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, file.Close())

	_, err = q.client.pd()
	assert.Equal(t, unix.EIO, err)
	assert.Equal(t, unix.EIO, q.destroy(abi.ObjectQP, qp.handle))
	assert.Zero(t, db[0])
	_, err = q.f.Mmap(int64(qp.SQDoorbellKey), 4096, unix.PROT_WRITE, unix.MAP_SHARED)
	assert.Equal(t, unix.EINVAL, err)
	assert.Equal(t, kernel.Stats{Contexts: 1}, r.Stats())
	require.NoError(t, q.f.Munmap(db))
	q.close()
	_, err = inproc.Open(r.Device)
	assert.Error(t, err)
}
