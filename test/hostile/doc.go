// Package hostile generates malformed and malicious inputs for tests of every ingress. It generates
// HTTP requests, JSON and form bodies, headers, signatures, HTTP/2 frames, gRPC and NATS messages,
// and answers of an upstream. It does not send inputs or judge the results.
//
// An input depends only on a seed, an entrance and a number, so an input that caused a failure can
// be generated again separately:
//
//	s := hostile.At(seed, "http", 4711)
//	in := hostile.Request(s, target)
//
// Most inputs have a few KiB and none has more than a few MiB, because the cost of an input should
// fall on its receiver.
package hostile
