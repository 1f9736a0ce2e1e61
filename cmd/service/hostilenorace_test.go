//go:build !race

package main

// hostileShare is the part of the inputs that is sent: all of them.
const hostileShare = 1
