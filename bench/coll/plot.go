package main

import (
	"fmt"
	"io"
	"os"

	"github.com/efactor/efactor/bench/internal/chart"
)

// writePlot draws latency and bus bandwidth over the size, a curve for each operation,
// into a PNG file.
func writePlot(path string, results []*result, env environment) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if e := f.Close(); err == nil {
			err = e
		}
	}()
	return drawPlot(f, results, env)
}

func drawPlot(w io.Writer, results []*result, env environment) error {
	var latency, bandwidth chart.Curves
	for _, r := range results {
		name := fmt.Sprintf("%s, %s", r.Op, r.Buffers)
		latency.Add(name, r.Size, r.Avg)
		bandwidth.Add(name, r.Size, r.BusBW)
	}
	left, err := chart.Panel(fmt.Sprintf("%d ranks, device %s", env.Ranks, env.Device), "Latency (us)", &latency)
	if err != nil {
		return err
	}
	right, err := chart.Panel(fmt.Sprintf("%s, %d cores, commit %s", env.CPU, env.Cores, env.Commit), "Bus bandwidth (GB/s)", &bandwidth)
	if err != nil {
		return err
	}
	return chart.Draw(w, left, right)
}
