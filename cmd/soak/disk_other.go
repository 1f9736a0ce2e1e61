//go:build !linux

package main

import (
	"context"
	"errors"
)

var errNoMounts = errors.New("--small-disk is for Linux")

func ownsMounts() bool { return false }

func runWithMounts(context.Context) error { return errNoMounts }

func mountSmallDisk(string) error { return errNoMounts }

func unmountSmallDisk(string) error { return errNoMounts }
