//go:build !race

package main

// hostileShare is the part of the inputs that is sent: all of them.
const hostileShare = 1

// crowd is how many slow clients come at once.
const crowd = 200
