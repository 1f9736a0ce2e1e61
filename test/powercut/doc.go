// Package powercut tests what survives a power cut. It runs the broker and the whole service on a
// [github.com/genbus/genbus/test/powercut/disk.Disk], which drops unsynced data at a cut.
//
// The tests need a modified nats-server, so they rebuild themselves with it and run the new binary.
package powercut
