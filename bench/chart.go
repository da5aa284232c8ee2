package main

import (
	"fmt"
	"image/color"
	"math"
	"os"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"

	"github.com/millrace-io/millrace/bench/work"
)

// drawn are the systems in the chart, with their colours.
var drawn = []struct {
	system string
	color  color.RGBA
}{
	{ceiling, color.RGBA{0xb0, 0xb0, 0xb0, 0xff}}, {peer, color.RGBA{0xd9, 0x73, 0x3a, 0xff}}, {ours, color.RGBA{0x2a, 0x6f, 0xa8, 0xff}},
}

const (
	barWidth   = vg.Length(10)
	jobWidth   = vg.Length(60)
	plotHeight = vg.Length(230)
)

// chart draws how many times less CPU than the peer, and how many times its rate, each system has: medians, for the jobs that
// go through their whole input. Figures themselves would not fit one axis, a value of 10 KiB beside one of 100 B. Without
// such a job of the peer's there is no file.
func (r *report) chart(path string) (err error) {
	jobs := slices.DeleteFunc(r.ran(func(j work.Job) bool { return steady(j) && j.Records == 0 }), func(j work.Job) bool {
		_, runs := r.spread(j.Key(), peer, rate)
		return runs == 0
	})
	if len(jobs) == 0 {
		return nil
	}
	cpu, err := r.bars(jobs, "Kafka Streams' CPU per record / its CPU per record", func(j, s string) float64 { return r.quotient(j, peer, s, cpuPerMillion) })
	if err != nil {
		return err
	}
	speed, err := r.bars(jobs, "its records per second / Kafka Streams'", func(j, s string) float64 { return r.quotient(j, s, peer, rate) })
	if err != nil {
		return err
	}
	width := max(jobWidth*vg.Length(len(jobs)+2), 7*vg.Inch)
	img := vgimg.New(width, 2*plotHeight)
	canvas := draw.New(img)
	cpu.Draw(draw.Crop(canvas, 0, 0, plotHeight, 0))
	speed.Draw(draw.Crop(canvas, 0, 0, 0, -plotHeight))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: img}.WriteTo(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

func (r *report) bars(jobs []work.Job, title string, of func(job, system string) float64) (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.Y.Min, p.Legend.Top, p.Legend.Left = title, 0, true, true
	p.Add(plotter.NewGrid())
	var names []string
	for _, j := range jobs {
		names = append(names, j.Key())
	}
	for i, d := range drawn {
		var values plotter.Values
		for _, j := range jobs {
			values = append(values, of(j.Key(), d.system))
		}
		bars, err := plotter.NewBarChart(values, barWidth)
		if err != nil {
			return nil, fmt.Errorf("the chart of %s: %w", title, err)
		}
		bars.Color, bars.LineStyle.Width, bars.Offset = d.color, 0, barWidth*vg.Length(i-1)
		p.Add(bars)
		p.Legend.Add(d.system, bars)
	}
	p.NominalX(names...)
	p.X.Min, p.X.Max, p.Y.Max = -0.5, float64(len(jobs))-0.5, 1.3*p.Y.Max // room for half a group of bars, and for the legend
	p.X.Tick.Label.Rotation = math.Pi / 7
	p.X.Tick.Label.XAlign, p.X.Tick.Label.YAlign = draw.XRight, draw.YTop
	return p, nil
}
