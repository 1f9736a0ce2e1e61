package body

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func canonicalForm(t *testing.T, body string) string {
	t.Helper()
	f := canonical{c: Cursor{Text: []byte(body)}}
	f.value()
	sum, err := fingerprint([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if sum != sha256.Sum256(f.out) {
		t.Fatalf("%s: the fingerprint is not that of the canonical form", body)
	}
	return string(f.out)
}

func TestFingerprintCanonicalForm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ body, want string }{
		{`{}`, `{}`},
		{" { } ", `{}`},
		{`{"b":[ 1 , {"d":1,"c" : 2}, [ ] ],"a":{"z":{},"y":null}}`, `{"a":{"y":null,"z":{}},"b":[1,{"c":2,"d":1},[]]}`},
		{`{"n":[1,1.0,1e2,1E2,-0,12345678901234567890]}`, `{"n":[1,1.0,1e2,1E2,-0,12345678901234567890]}`},
		{`{"s":"\u0061\/\u00e9é\ud83d\ude00\"\\\u0022\u005c"}`, `{"s":"a/éé😀\"\\\"\\"}`},
		{`{"s":"\b\t\n\f\r\u0008\u0009\u000a\u000c\u000d\u0001\u001F\u007f"}`, `{"s":"\b\t\n\f\r\b\t\n\f\r\u0001\u001f` + "\x7f" + `"}`},
		{`{"s":"\uD83D \ude00\ud83d\u0041 \ufffd"}`, `{"s":"\ud83d \ude00\ud83dA ` + "\ufffd" + `"}`},
		{`{"\u0062":1,"a":2}`, `{"a":2,"b":1}`},
	} {
		if got := canonicalForm(t, test.body); got != test.want {
			t.Errorf("%s\n got %s\nwant %s", test.body, got, test.want)
		}
	}
}

// TestFingerprintStays checks that fingerprints never change, because after an upgrade genbus
// compares repeats with fingerprints in the log.
func TestFingerprintStays(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{}`: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
		` { "b" : [ 1.0 , -0 , 1E2 , 12345678901234567890 , 0.10 ] , "a":{"z":null,"y":[true,{}]}} `:                 "99b58cfd4564e3836b87041836724a0266e044c9697f83702a81df2e6651ac18",
		`{"a":1,"a!":2,"a\"":3,"a\\":4,"a\u0001":5,"":6,"\ud83d\ude00":7,"\uffff":8,"é":9,"\ud83d":10,"\ude00a":11}`: "1e7ba44a0764fac6c8712b4e399c04e907924c821bb764b551f87801785425b0",
		`{"s":"\b\t\n\f\r\u0008\u001F\u007f\/\"\\\u0022 \ud83d \uD83D\uDE00 \ude00\ud83d \ufffd \u2028 <&>"}`:        "acc9c3b4ad00d0138641fcb028395dd885e290e366308576a8908e4e938f2954",
		`{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`:                                    "a0d23575a787dcc055e81256fccb5a57162fcb79adafdd544092e68507e01530",
		`{"model":"m","prompt":"p","duration":"5","metadata":{"b":1,"a":2}}`:                                         "c58c8b6c1831003537950bcddd50e96c60b73a327b1c996e0cb5367562688950",
	} {
		sum, err := fingerprint([]byte(body))
		if got := hex.EncodeToString(sum[:]); err != nil || got != want {
			t.Errorf("%s: %s, %v; an earlier version says %s", body, got, err, want)
		}
	}
}

func TestFingerprintTellsApart(t *testing.T) {
	t.Parallel()
	bodies := []string{
		`{"a":1}`, `{"a":1.0}`, `{"a":"1"}`, `{"a":null}`, `{"a":[1]}`, `{"a":{"1":1}}`, `{}`, `{"a":[1,2]}`, `{"a":[2,1]}`,
		`{"a":"\ud83d"}`, `{"a":"\ufffd"}`, `{"a":""}`, `{"a":[]}`, `{"a":{}}`, `{"a":12345678901234567890}`, `{"a":12345678901234567891}`,
	}
	seen := map[[32]byte]string{}
	for _, body := range bodies {
		sum, err := fingerprint([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[sum]; ok {
			t.Errorf("%s and %s have one fingerprint", body, other)
		}
		seen[sum] = body
	}
}

// TestFingerprintOfTheSameRequest checks that the order of members, white space and the spelling of
// strings do not affect the fingerprint.
func TestFingerprintOfTheSameRequest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := chatJSON().Draw(t, "body")
		var again strings.Builder
		respell(t, &again, decodeOrdered(t, body))
		one, err := fingerprint([]byte(body))
		if err != nil {
			t.Fatalf("%v\n%s", err, body)
		}
		other, err := fingerprint([]byte(again.String()))
		if err != nil {
			t.Fatalf("%v\n%s", err, again.String())
		}
		if one != other {
			t.Fatalf("two fingerprints of one request:\n%s\n%s", body, again.String())
		}
	})
}

func decodeOrdered(t *rapid.T, body string) any {
	dec := json.NewDecoder(strings.NewReader(body))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v", err)
	}
	return v
}

// respell writes v with a different order of members, white space and escapes.
func respell(t *rapid.T, b *strings.Builder, v any) {
	space := rapid.SampledFrom([]string{"", " ", "\r\n\t"})
	b.WriteString(space.Draw(t, "space"))
	switch v := v.(type) {
	case map[string]any:
		known := members{}
		for k := range v {
			known[k] = nil
		}
		b.WriteString("{")
		for i, k := range rapid.Permutation(sortedNames(known)).Draw(t, "order") {
			if i > 0 {
				b.WriteString(",")
			}
			respell(t, b, k)
			b.WriteString(":")
			respell(t, b, v[k])
		}
		b.WriteString("}")
	case []any:
		b.WriteString("[")
		for i, e := range v {
			if i > 0 {
				b.WriteString(",")
			}
			respell(t, b, e)
		}
		b.WriteString("]")
	case string:
		b.WriteString(`"`)
		for _, r := range v {
			if r > 0xffff || r >= ' ' && r != '"' && r != '\\' && rapid.Bool().Draw(t, "plain") {
				b.WriteRune(r)
			} else {
				fmt.Fprintf(b, `\u%04X`, r)
			}
		}
		b.WriteString(`"`)
	case json.Number:
		b.WriteString(v.String())
	default:
		fmt.Fprint(b, map[any]string{nil: "null", true: "true", false: "false"}[v])
	}
	b.WriteString(space.Draw(t, "space"))
}

func TestFingerprintRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{``, `[]`, `{"a":1,"a":1}`, `{"a":{"b":1,"b":1}}`, "{\"a\":\"\xff\"}", strings.Repeat(`{"a":`, MaxDepth+1) + `1` + strings.Repeat(`}`, MaxDepth+1)} {
		if _, err := fingerprint([]byte(body)); err == nil {
			t.Errorf("%.40q has a fingerprint", body)
		}
	}
}
