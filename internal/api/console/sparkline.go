package console

import (
	"strconv"
	"strings"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
)

// sparkHeight is the height of a sparkline in SVG units. A minute is one unit wide.
const sparkHeight = 20

// spark returns the points of a polyline that plots one figure of a route's minutes. All figures of
// a route share the same scale. The last minute is left out because it is incomplete.
func spark(minutes []*genbusv1.RouteMinute, figure func(*genbusv1.RouteMinute) uint32) string {
	if len(minutes) < 2 {
		return ""
	}
	over := minutes[:len(minutes)-1]
	highest := uint32(1)
	for _, m := range over {
		highest = max(highest, m.GetAccepted(), m.GetEnded())
	}
	points := make([]string, 0, len(over))
	for i, m := range over {
		y := sparkHeight - float64(figure(m))/float64(highest)*(sparkHeight-2) - 1
		points = append(points, strconv.Itoa(i)+","+strconv.FormatFloat(y, 'f', 1, 64))
	}
	return strings.Join(points, " ")
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
