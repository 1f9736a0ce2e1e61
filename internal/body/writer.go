package body

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// writer appends JSON to buf. If it cannot write a value, it omits the value and continues, so the
// text is always valid. err is the first error.
type writer struct {
	buf []byte
	// names holds the names of the members written to the open objects, with those of the innermost
	// object last.
	names []string
	// path is the path to the open object, with the names of Protobuf fields.
	path path
	how  strictness
	err  error
}

type object struct {
	w    *writer
	from int
}

func (w *writer) open() object {
	w.buf = append(w.buf, '{')
	return object{w: w, from: len(w.names)}
}

func (o object) close(extra []byte) {
	if len(extra) > 0 {
		o.extra(extra)
	}
	o.w.names = o.w.names[:o.from]
	o.w.buf = append(o.w.buf, '}')
}

func (o object) extra(extra []byte) {
	if err := o.w.check(extra); err != nil {
		o.w.fail("extra_json", err)
		return
	}
	typed := o.w.names[o.from:]
	c := NewCursor(extra)
	for quoted := range c.Members() {
		if name := string(MemberName(quoted)); slices.Contains(typed, name) {
			o.w.fail("extra_json", fmt.Errorf("contains %q, which is also set as a typed field; set it once", name))
			continue
		}
		o.w.comma()
		o.w.buf = append(o.w.buf, quoted...)
		o.w.buf = append(o.w.buf, ':')
		o.w.buf = append(o.w.buf, c.Value()...)
	}
}

func (o object) name(name string) {
	o.w.comma()
	o.w.names = append(o.w.names, name)
	o.w.buf = append(o.w.buf, '"')
	o.w.buf = append(o.w.buf, name...)
	o.w.buf = append(o.w.buf, '"', ':')
}

func (w *writer) comma() {
	if last := w.buf[len(w.buf)-1]; last != '{' && last != '[' {
		w.buf = append(w.buf, ',')
	}
}

func (w *writer) fail(field string, err error) {
	if w.err == nil {
		w.err = fieldErrorOf(w.path.to(field), err)
	}
}

// check validates JSON that is written unchanged.
func (w *writer) check(object []byte) error {
	if w.how == strict {
		return checkRequest(object)
	}
	return checkObject(object, w.how)
}

// text writes a string unless it is empty.
func (o object) text(name, value string) {
	if value != "" {
		o.always(name, value)
	}
}

func (o object) optText(name string, value *string) {
	if value != nil {
		o.always(name, *value)
	}
}

func (o object) always(name, value string) {
	o.name(name)
	o.w.string(name, value)
}

func (w *writer) string(field, value string) {
	var err error
	w.buf, err = jsontext.AppendQuote(w.buf, value)
	if err != nil {
		w.fail(field, errors.New("is not valid UTF-8"))
	}
}

func (o object) bool(name string, value bool) {
	o.name(name)
	o.w.buf = strconv.AppendBool(o.w.buf, value)
}

func (o object) optBool(name string, value *bool) {
	if value != nil {
		o.bool(name, *value)
	}
}

func (o object) int(name string, value int64) {
	o.name(name)
	o.w.buf = strconv.AppendInt(o.w.buf, value, 10)
}

func (o object) uint(name string, value uint64) {
	o.name(name)
	o.w.buf = strconv.AppendUint(o.w.buf, value, 10)
}

func (o object) optInt64(name string, value *int64) {
	if value != nil {
		o.int(name, *value)
	}
}

func (o object) optInt32(name string, value *int32) {
	if value != nil {
		o.int(name, int64(*value))
	}
}

func (o object) double(name string, value float64) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		o.w.fail(name, errors.New("is not a finite number, which JSON requires"))
		return
	}
	o.name(name)
	o.w.buf = jsontext.AppendFloat(o.w.buf, value, 64)
}

func (o object) optDouble(name string, value *float64) {
	if value != nil {
		o.double(name, *value)
	}
}

// rawObject writes a JSON object unchanged, unless it is empty. field is the name of the Protobuf
// field.
func (o object) rawObject(name, field string, value []byte) {
	if len(value) == 0 {
		return
	}
	if err := o.w.check(value); err != nil {
		o.w.fail(field, err)
		return
	}
	o.name(name)
	o.w.buf = append(o.w.buf, value...)
}

// texts writes a list of strings unless it is empty.
func (o object) texts(name string, values []string) {
	if len(values) == 0 {
		return
	}
	o.name(name)
	o.w.buf = append(o.w.buf, '[')
	for _, v := range values {
		o.w.comma()
		o.w.string(name, v)
	}
	o.w.buf = append(o.w.buf, ']')
}

// octets writes bytes as a list of numbers unless there are none.
func (o object) octets(name string, values []byte) {
	if len(values) == 0 {
		return
	}
	o.name(name)
	o.w.buf = append(o.w.buf, '[')
	for _, v := range values {
		o.w.comma()
		o.w.buf = strconv.AppendUint(o.w.buf, uint64(v), 10)
	}
	o.w.buf = append(o.w.buf, ']')
}

// textDict writes a map in the order of its keys unless it is empty.
func (o object) textDict(name string, m map[string]string) {
	writeDict(o, name, m, func(d object, value string) { d.w.string(name, value) })
}

func (o object) doubleDict(name string, m map[string]float64) {
	writeDict(o, name, m, func(d object, value float64) {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			d.w.buf = append(d.w.buf, "null"...)
			d.w.fail(name, errors.New("contains a number that is not finite, which JSON cannot represent"))
			return
		}
		d.w.buf = jsontext.AppendFloat(d.w.buf, value, 64)
	})
}

func writeDict[V any](o object, name string, m map[string]V, value func(object, V)) {
	if len(m) == 0 {
		return
	}
	o.name(name)
	d := o.w.open()
	for _, key := range slices.Sorted(maps.Keys(m)) {
		o.w.comma()
		o.w.string(name, key)
		o.w.buf = append(o.w.buf, ':')
		value(d, m[key])
	}
	d.close(nil)
}

// nest writes a message as a member unless it is nil.
func nest[T any](o object, name string, m *T, write func(*writer, *T)) {
	if m == nil {
		return
	}
	o.name(name)
	o.w.path = append(o.w.path, step{name, single})
	write(o.w, m)
	o.w.path = o.w.path[:len(o.w.path)-1]
}

// list writes messages as an array unless it is empty.
func list[T any](o object, name string, ms []*T, write func(*writer, *T)) {
	if len(ms) > 0 {
		array(o, name, name, ms, write)
	}
}

// array writes messages as an array, even if there are none. field is the name of the Protobuf
// field.
func array[T any](o object, name, field string, ms []*T, write func(*writer, *T)) {
	o.name(name)
	o.w.buf = append(o.w.buf, '[')
	for i, m := range ms {
		if m == nil {
			m = new(T) // as Protobuf does
		}
		o.w.comma()
		o.w.path = append(o.w.path, step{field, i})
		write(o.w, m)
		o.w.path = o.w.path[:len(o.w.path)-1]
	}
	o.w.buf = append(o.w.buf, ']')
}

// holds reports whether extra, which is a JSON object or empty, has a member called name. extra
// need not be valid, because it is checked when it is written.
func holds(extra []byte, name string) bool {
	return Trusted(extra).Member(name) != nil
}
