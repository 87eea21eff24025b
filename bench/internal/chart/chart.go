package chart

import (
	"cmp"
	"image/color"
	"io"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/efactor/efactor/bench/internal/versus"
)

// Curves are those of a diagram, in the order in which they first got a point.
type Curves struct {
	names  []string
	points map[string]plotter.XYs
}

// Add gives a curve a point. Both axes are logarithmic, so what is zero, or no number, has
// no place.
func (c *Curves) Add(name string, size int, value float64) {
	if size <= 0 || !(value > 0) || math.IsInf(value, 0) {
		return
	}
	if c.points == nil {
		c.points = map[string]plotter.XYs{}
	}
	if _, ok := c.points[name]; !ok {
		c.names = append(c.names, name)
	}
	c.points[name] = append(c.points[name], plotter.XY{X: float64(size), Y: value})
}

// legendHeight is the part of a diagram's height that the legend has for a curve, above the
// curves.
const legendHeight = 0.06

// Panel is a diagram.
func Panel(title, label string, c *Curves) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, "Size (bytes)", label
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.TickerFunc(powersOf16), plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	if len(c.names) == 0 { // an empty logarithmic axis cannot be drawn
		p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 1, 10, 1, 10
	}
	for i, name := range c.names {
		at := c.points[name]
		slices.SortStableFunc(at, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		line, points, err := plotter.NewLinePoints(at)
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
	p.Y.Max *= math.Pow(p.Y.Max/p.Y.Min, legendHeight*float64(len(c.names)))
	return p, nil
}

// Draw writes panels beside each other as PNG.
func Draw(w io.Writer, panels ...*plot.Plot) error {
	width := vg.Length(15*len(panels)) * vg.Centimeter
	canvas := vgimg.NewWith(vgimg.UseWH(width, 13*vg.Centimeter), vgimg.UseDPI(120), vgimg.UseBackgroundColor(color.White))
	tiles := draw.Tiles{Rows: 1, Cols: len(panels), PadX: vg.Centimeter, PadLeft: vg.Millimeter, PadRight: 4 * vg.Millimeter, PadTop: 2 * vg.Millimeter, PadBottom: vg.Millimeter}
	plots := [][]*plot.Plot{panels}
	for i, c := range plot.Align(plots, tiles, draw.New(canvas))[0] {
		plots[0][i].Draw(c)
	}
	_, err := vgimg.PngCanvas{Canvas: canvas}.WriteTo(w)
	return err
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
