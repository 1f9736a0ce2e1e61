//go:build !linux

package broker

import "errors"

// freeSpace is unknown here.
func freeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
