//go:build race

package main

// hostileShare is the part of the inputs that is sent: the race detector makes
// everything several times as slow.
const hostileShare = 5
