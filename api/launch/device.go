package launch

import (
	"context"
	"fmt"
	"log/slog"
)

// defaultDevice is the device that Init opens by default.
const defaultDevice = "auto"

// device fills in the device's settings that the caller has left out.
func (e *environment) device(j *Job) {
	f := &e.Fabric
	if f.Logger == nil {
		f.Logger = e.Logger
		if j.LocalRank > 0 { // one per host is sufficient
			f.Logger = slog.New(warnings{e.Logger.Handler()})
		}
	}
	if f.DeviceName == "" {
		f.DeviceName = defaultDevice
	}
	if f.TCP.TLS == nil && len(f.TCP.Secret) == 0 {
		f.TCP.Secret = e.Secret
	}
	f.TCP.Insecure = f.TCP.Insecure || e.Insecure
	if f.TCP.Addr.IsValid() {
		return
	}
	f.TCP.Addr = e.Addr
	// The way to the rendezvous is one that the others have, too, unless it is only this
	// host's name for itself. Otherwise the device chooses: loopback, or with a secret
	// (or leave to do without) an address of an interface.
	here := j.at.Local()
	if !e.Addr.IsValid() && here.IsValid() && !here.IsLinkLocalUnicast() && (!here.IsLoopback() || j.hosts == 1) {
		f.TCP.Addr = here
	}
}

// hint suggests a remedy if a rank cannot be reached.
func (e *environment) hint(j *Job) string {
	if j.hosts > 1 && len(e.Fabric.TCP.Secret) == 0 && e.Fabric.TCP.TLS == nil && !e.Fabric.TCP.Insecure {
		return fmt.Sprintf(" (the ranks are on %d hosts, and there is neither a job secret, %s or %s, nor %s=1)",
			j.hosts, envSecret, envSecretFile, envInsecure)
	}
	return ""
}

// warnings lets nothing below a warning through.
type warnings struct{ slog.Handler }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && w.Handler.Enabled(ctx, level)
}
