package hostile

import "encoding/binary"

// Preface is the first data of every HTTP/2 client.
const Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Types of HTTP/2 frames.
const (
	FrameData byte = iota
	FrameHeaders
	FramePriority
	FrameReset
	FrameSettings
	FramePush
	FramePing
	FrameGoAway
	FrameWindow
	FrameContinuation
)

// Flags of HTTP/2 frames.
const (
	FlagEnd        byte = 0x1 // ends a stream; acknowledges pings and settings
	FlagEndHeaders byte = 0x4
)

// Frame appends an HTTP/2 frame. The payload may be longer than a receiver allows.
func Frame(dst []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	dst = append(dst, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	dst = binary.BigEndian.AppendUint32(dst, stream)
	return append(dst, payload...)
}

// Field appends a header field to an HPACK block, as a literal without indexing or Huffman coding.
func Field(dst []byte, name, value string) []byte {
	return hpackText(hpackText(append(dst, 0), name), value)
}

func hpackText(dst []byte, text string) []byte { return append(hpackNumber(dst, len(text)), text...) }

// hpackNumber appends a number with a 7-bit prefix.
func hpackNumber(dst []byte, n int) []byte {
	const most = 1<<7 - 1
	if n < most {
		return append(dst, byte(n))
	}
	dst = append(dst, most)
	for n -= most; n >= 1<<7; n >>= 7 {
		dst = append(dst, byte(n&most|1<<7))
	}
	return append(dst, byte(n))
}

// CallHeader appends the header block of a gRPC call. more holds additional fields as alternating
// names and values.
func CallHeader(dst []byte, method, authorization string, more ...string) []byte {
	fields := append([]string{
		":method", "POST", ":scheme", "http", ":path", method, ":authority", "hostile.example", "content-type", "application/grpc", "te", "trailers",
		"authorization", authorization,
	}, more...)
	for i := 0; i+1 < len(fields); i += 2 {
		dst = Field(dst, fields[i], fields[i+1])
	}
	return dst
}

// Envelope appends a message in gRPC framing.
func Envelope(dst []byte, compressed bool, message []byte) []byte {
	flag := byte(0)
	if compressed {
		flag = 1
	}
	dst = append(dst, flag)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(message)))
	return append(dst, message...)
}
