package hostile

import (
	"math"
	"strings"
)

var floats = []float64{0, -1, 5, 0.1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64, 1e300, math.Copysign(0, -1)}

// Addresses are URLs that a service must not fetch for a caller, and malformed URLs.
var Addresses = []string{
	"http://169.254.169.254/latest/meta-data/", "http://[fd00:ec2::254]/latest/", "http://metadata.google.internal/computeMetadata/v1/", "http://168.63.129.16/", "http://100.100.100.200/",
	"file:///etc/passwd", "gopher://127.0.0.1:25/_x", "dict://127.0.0.1:11211/stat", "ftp://127.0.0.1/x", "javascript:alert(1)", "jar:http://127.0.0.1!/x", "data:,", "data:text/html,<script>",
	"//127.0.0.1/x", "/etc/passwd", "http:127.0.0.1/", "http:///x", "http://", "http://?", "http://#", "http://[", "http://[::1", "http://:80/", "http://%00/", "http://a b/", "http://\x00/", "http://\r\nHost:x/",
	"http://127.0.0.1:99999/", "http://127.0.0.1:-1/", "http://user:password@127.0.0.1/", "http://127.0.0.1\\@evil.example/", "http://127.0.0.1%23@evil.example/", "http://x/%0d%0aX-Injected:%201",
	"http://" + strings.Repeat("a", 300) + ".example/", "http://x/" + strings.Repeat("a", 9000), "\xff\xfe", "HTTP://[::ffff:7f00:1]/", "http://xn--/", "http://。/",
}

// Inward returns URLs that reach port on this machine, one for each way to write its address. None
// of them has the origin of an upstream on another port.
func Inward(port string) []string {
	var out []string
	for _, host := range []string{
		"127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "017700000001", "0177.0.0.1", "0", "0.0.0.0", "127.0.0.1.", "localhost", "LOCALHOST", "localhost.", "[::1]", "[::]", "[::ffff:127.0.0.1]",
		"[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[::ffff:0:127.0.0.1]", "[fe80::1%25lo]", "[::1%25lo]", "127.127.127.127", "①②⑦.0.0.1", "user@127.0.0.1",
	} {
		out = append(out, "http://"+host+":"+port+"/secret")
	}
	return out
}
