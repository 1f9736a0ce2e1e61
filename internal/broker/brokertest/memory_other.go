//go:build !linux

package brokertest

// memoryDir is empty: this system has no file system in memory that every user may write.
func memoryDir() string { return "" }
