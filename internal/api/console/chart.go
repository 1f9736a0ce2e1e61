package console

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// Size of the plot of a chart in SVG units.
const (
	minuteWidth = 4
	chartHeight = 36
)

// chart draws a route's complete minutes. All figures share the scale from 0 to Peak jobs per
// minute. Ended, Failed and Accepted are SVG paths: Failed is an area on the base line, Ended the
// area up to all ended jobs, and Accepted a line.
type chart struct {
	Ended, Failed, Accepted string
	Peak                    uint32
	Hour                    *genbusv1.RouteMinute // the sum, including the incomplete minute
	// Minutes are the tooltips of the minutes in which something happened.
	Minutes []chartMinute
}

type chartMinute struct {
	X    int
	Text string
}

// chartOf returns the chart of minutes that begin at from, or nil without events. The last minute
// is left out because it is incomplete.
func chartOf(from *timestamppb.Timestamp, minutes []*genbusv1.RouteMinute) *chart {
	if len(minutes) < 2 {
		return nil
	}
	c := &chart{Hour: lastHour(minutes)}
	if idle(c.Hour) {
		return nil
	}
	minutes = minutes[:len(minutes)-1]
	for i, m := range minutes {
		c.Peak = max(c.Peak, m.GetAccepted(), m.GetEnded())
		if !idle(m) {
			at := from.AsTime().Add(time.Duration(i) * time.Minute)
			c.Minutes = append(c.Minutes, chartMinute{X: i * minuteWidth, Text: at.Format("15:04 UTC: ") + countsOf(m)})
		}
	}
	c.Peak = max(c.Peak, 1)
	c.Ended = c.area(minutes, (*genbusv1.RouteMinute).GetEnded)
	c.Failed = c.area(minutes, (*genbusv1.RouteMinute).GetFailed)
	c.Accepted = c.steps(minutes, (*genbusv1.RouteMinute).GetAccepted)
	return c
}

func idle(m *genbusv1.RouteMinute) bool { return m.GetAccepted()+m.GetStarted()+m.GetEnded() == 0 }

// Summary says what the chart shows, for screen readers.
func (c *chart) Summary() string {
	return fmt.Sprintf("Last hour: %s; at most %d a minute", countsOf(c.Hour), c.Peak)
}

func countsOf(m *genbusv1.RouteMinute) string {
	return fmt.Sprintf("%d accepted, %d started, %d completed or cancelled, %d failed", m.GetAccepted(), m.GetStarted(), m.GetEnded()-m.GetFailed(), m.GetFailed())
}

// steps returns a path that has one level per minute.
func (c *chart) steps(minutes []*genbusv1.RouteMinute, figure func(*genbusv1.RouteMinute) uint32) string {
	var b strings.Builder
	level := ""
	for i, m := range minutes {
		y := strconv.FormatFloat(chartHeight-chartHeight*float64(figure(m))/float64(c.Peak), 'f', 1, 64)
		switch {
		case i == 0:
			b.WriteString("M0 " + y)
		case y != level:
			fmt.Fprintf(&b, "H%dV%s", i*minuteWidth, y)
		}
		level = y
	}
	fmt.Fprintf(&b, "H%d", len(minutes)*minuteWidth)
	return b.String()
}

// area returns steps, closed on the base line.
func (c *chart) area(minutes []*genbusv1.RouteMinute, figure func(*genbusv1.RouteMinute) uint32) string {
	return fmt.Sprintf("%sV%dH0Z", c.steps(minutes, figure), chartHeight)
}

// lastMinute returns the last complete minute.
func lastMinute(minutes []*genbusv1.RouteMinute) *genbusv1.RouteMinute {
	if len(minutes) < 2 {
		return nil
	}
	return minutes[len(minutes)-2]
}

func lastHour(minutes []*genbusv1.RouteMinute) *genbusv1.RouteMinute {
	sum := &genbusv1.RouteMinute{}
	for _, m := range minutes {
		sum.Accepted += m.GetAccepted()
		sum.Started += m.GetStarted()
		sum.Ended += m.GetEnded()
		sum.Failed += m.GetFailed()
	}
	return sum
}
