package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

type table struct {
	title string
	rows  [][]string // the first is the head
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// write prints the table as aligned columns in Markdown.
func (t *table) write(w io.Writer) error {
	if _, err := fmt.Fprintf(w, "\n%s\n\n", t.title); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	for i, row := range t.rows {
		fmt.Fprintf(tw, "| %s\t|\n", strings.Join(row, "\t| "))
		if i == 0 {
			fmt.Fprintf(tw, "|%s\n", strings.Repeat(" ---\t|", len(row)))
		}
	}
	return tw.Flush()
}

// printTables prints the machine and all tables with rows.
func printTables(m machine, tables []table) error {
	fmt.Printf("%s, %d cores, %s, load %s\n", m.CPU, m.Cores, m.Go, m.LoadAvg)
	for _, t := range tables {
		if len(t.rows) < 2 {
			continue
		}
		if err := t.write(os.Stdout); err != nil {
			return err
		}
	}
	return nil
}

// number formats a value with three significant digits, or more for large whole numbers. NaN is a
// dash.
func number(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "-"
	case a >= 100 || v == 0:
		return fmt.Sprintf("%.0f", v)
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 1:
		return fmt.Sprintf("%.2f", v)
	default:
		return fmt.Sprintf("%.3f", v)
	}
}

func aim(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}

// spread is the median and the range of some values.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	s := slices.Sorted(slices.Values(values))
	return spread{Median: rank(s, 0.5), Min: s[0], Max: s[len(s)-1]}
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s-%s)", number(s.Median), number(s.Min), number(s.Max))
}

// rank returns the interpolated q-quantile of sorted values, or NaN without values.
func rank(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (sorted[low+1]-sorted[low])*(at-float64(low))
}

func printJSON(v any) error { return writeJSON(os.Stdout, v) }

// writeJSON writes v as indented JSON. It writes NaN as null, because JSON has no NaN.
func writeJSON(to io.Writer, v any) error {
	numbers := json.MarshalToFunc(func(enc *jsontext.Encoder, f float64) error {
		if math.IsNaN(f) {
			return enc.WriteToken(jsontext.Null)
		}
		return errors.ErrUnsupported
	})
	return json.MarshalEncode(jsontext.NewEncoder(to, jsontext.WithIndent("  ")), v, json.WithMarshalers(numbers))
}
