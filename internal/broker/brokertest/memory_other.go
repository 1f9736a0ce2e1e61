//go:build !linux

package brokertest

// memoryDir returns "", because this system has no in-memory file system that every user may write
// to.
func memoryDir() string { return "" }
