//go:build !linux

package brokertest

// memoryDir returns "": this system has no file system in memory that every user may write to.
func memoryDir() string { return "" }
