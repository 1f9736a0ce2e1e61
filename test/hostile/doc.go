// Package hostile makes malformed and malicious inputs, for tests of every way
// in: HTTP requests, JSON and form bodies, header values, signatures, HTTP/2
// frames, gRPC and NATS messages, and the answers of an upstream. It sends
// nothing, and it does not judge what comes back.
//
// Every input follows from a seed, an entrance and a number alone, so that one
// that has done harm can be made again without the others:
//
//	s := hostile.At(seed, "http", 4711)
//	in := hostile.Request(s, target)
//
// Inputs are at most a few MiB, and rarely more than a few KiB: what they cost is
// to be paid by who receives them.
package hostile
