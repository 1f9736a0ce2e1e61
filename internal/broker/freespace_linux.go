package broker

import "syscall"

// freeSpace returns the number of bytes that unprivileged processes can still write to the file
// system of dir.
func freeSpace(dir string) (int64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return int64(fs.Bavail) * int64(fs.Frsize), nil //nolint:unconvert // Frsize is an int32 on some architectures
}
