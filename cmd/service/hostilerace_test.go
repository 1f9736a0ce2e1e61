//go:build race

package main

// hostileShare is the part of the inputs that is sent: the race detector makes
// everything several times as slow.
const hostileShare = 5

// crowd is how many slow clients come at once: they share a few cores with a
// service that is several times as slow.
const crowd = 8
