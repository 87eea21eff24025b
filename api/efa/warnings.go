package efa

import (
	"context"
	"log/slog"
)

// warnings is the handler of a Fabric without a Logger: a program that asked for nothing hears
// of what is wrong.
type warnings struct{ slog.Handler }

func defaultLog() *slog.Logger { return slog.New(warnings{slog.Default().Handler()}) }

// Enabled implements slog.Handler.
func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}

// WithAttrs implements slog.Handler.
func (w warnings) WithAttrs(as []slog.Attr) slog.Handler { return warnings{w.Handler.WithAttrs(as)} }

// WithGroup implements slog.Handler.
func (w warnings) WithGroup(name string) slog.Handler { return warnings{w.Handler.WithGroup(name)} }
