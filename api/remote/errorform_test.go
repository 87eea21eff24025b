package remote_test

import (
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/stretchr/testify/require"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/api/remote"
)

// TestErrorForm: "remote" once, the call, the cause.
func TestErrorForm(t *testing.T) {
	c := remote.Config{Setup: &efa.Setup{Fabric: efa.Config{DeviceName: "nothing"}}}
	_, err := c.Listen(t.Context(), actor.NewActorSystem(), "h:1")
	require.ErrorIs(t, err, efa.ErrInvalid)
	require.Regexp(t, `^remote: listen at "h:1": open: invalid argument: device "nothing"`, err.Error())

	system := actor.NewActorSystem()
	system.ProcessRegistry.Address = "taken"
	c.Setup.Fabric.DeviceName = "sim"
	_, err = c.Listen(t.Context(), system, "")
	require.ErrorIs(t, err, remote.ErrStarted)
	require.EqualError(t, err, `remote: listen at "": the actor system has an address, or actors, already`)
}
