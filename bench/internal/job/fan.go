package job

import (
	"context"
	"errors"

	"github.com/efactor/efactor/api/efa"
	"github.com/efactor/efactor/bench/stream/flow"
)

// fan is the receiver of several streams, or one of its senders.
func (j *Job) fan(ctx context.Context) (*Result, error) {
	mode, err := efa.ParseProgress(j.Progress)
	if err != nil {
		return nil, err
	}
	hub, side, end, err := flow.OpenFan(ctx, j.Device, mode)
	if err != nil {
		return nil, err
	}
	if side != nil {
		_, err := side.Run(ctx, j.Plan)
		return nil, errors.Join(err, end())
	}
	res, err := hub.Run(ctx, j.Plan)
	if err = errors.Join(err, end()); err != nil {
		return nil, err
	}
	return &Result{Flow: res}, res.Check(&j.Plan)
}
