// Package powercut cuts the power: its tests run the broker and the whole service on a
// [github.com/genbus/genbus/test/powercut/disk.Disk], which leaves out what was not synced,
// and look at what is there after a cut.
//
// A process that runs on such a disk has a rebuilt nats-server: the tests build
// themselves once more with it, and run there.
package powercut
