package main

import (
	"fmt"
	"image/color"
	"io"
	"math"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/efactor/efactor/bench/internal/versus"
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
	latency, err := panel(results, "Latency (us)", func(r *result) float64 { return r.Avg })
	if err != nil {
		return err
	}
	bandwidth, err := panel(results, "Bus bandwidth (GB/s)", func(r *result) float64 { return r.BusBW })
	if err != nil {
		return err
	}
	latency.Title.Text = fmt.Sprintf("%d ranks, device %s", env.Ranks, env.Device)
	bandwidth.Title.Text = fmt.Sprintf("%s, %d cores, commit %s", env.CPU, env.Cores, env.Commit)
	canvas := vgimg.NewWith(vgimg.UseWH(30*vg.Centimeter, 13*vg.Centimeter), vgimg.UseDPI(120), vgimg.UseBackgroundColor(color.White))
	tiles := draw.Tiles{Rows: 1, Cols: 2, PadX: vg.Centimeter, PadLeft: vg.Millimeter, PadRight: 4 * vg.Millimeter, PadTop: 2 * vg.Millimeter, PadBottom: vg.Millimeter}
	plots := [][]*plot.Plot{{latency, bandwidth}}
	for i, c := range plot.Align(plots, tiles, draw.New(canvas))[0] {
		plots[0][i].Draw(c)
	}
	_, err = vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
}

// panel is one of the two diagrams. Both axes are logarithmic, so what is zero has no
// place in it.
func panel(results []*result, label string, value func(*result) float64) (*plot.Plot, error) {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "Size (bytes)", label
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powersOf16), plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	var names []string
	curves := map[string]plotter.XYs{}
	for _, r := range results {
		v := value(r)
		if r.Size == 0 || !(v > 0) || math.IsInf(v, 0) {
			continue
		}
		name := fmt.Sprintf("%s, %s", r.Op, r.Buffers)
		if _, ok := curves[name]; !ok {
			names = append(names, name)
		}
		curves[name] = append(curves[name], plotter.XY{X: float64(r.Size), Y: v})
	}
	if len(names) == 0 { // an empty logarithmic axis cannot be drawn
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 10, 1, 10
	}
	for i, name := range names {
		line, points, err := plotter.NewLinePoints(curves[name])
		if err != nil {
			return nil, err
		}
		line.Color, points.Color = plotutil.Color(i), plotutil.Color(i)
		line.Dashes, points.Shape = plotutil.Dashes(i/7), plotutil.Shape(i)
		p.Add(line, points)
		p.Legend.Add(name, line, points)
	}
	// An axis of one value has no length.
	widen(&p.X.Min, &p.X.Max)
	widen(&p.Y.Min, &p.Y.Max)
	return p, nil
}

func widen(low, high *float64) {
	if *high <= *low {
		*low, *high = *low/2, *high*2
	}
}

// powersOf16 are ticks at 1, 16, 256, 4k, 64k...
func powersOf16(low, high float64) (ticks []plot.Tick) {
	for n := versus.Size(1); float64(n) <= high; n *= 2 {
		if float64(n) < low {
			continue
		}
		t := plot.Tick{Value: float64(n)}
		if bits := math.Log2(float64(n)); int(bits)%4 == 0 {
			t.Label = n.String()
		}
		ticks = append(ticks, t)
	}
	return ticks
}
