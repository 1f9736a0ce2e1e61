package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// mountsEnv marks the child process, which has its own mount namespace.
const mountsEnv = "GENBUS_SOAK_MOUNTS"

func ownsMounts() bool { return os.Getenv(mountsEnv) != "" }

// runWithMounts reruns this program with the same arguments in a new mount namespace.
func runWithMounts(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), mountsEnv+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("--small-disk needs user namespaces, which are off here: %w", err)
	}
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		os.Exit(ended.ExitCode()) // the child printed the reason
	}
	return err
}

// unmountSmallDisk undoes mountSmallDisk.
func unmountSmallDisk(dir string) error {
	return syscall.Unmount(filepath.Join(dir, "data"), syscall.MNT_DETACH)
}

// mountSmallDisk mounts a 1 GiB tmpfs at the embedded broker's data directory.
func mountSmallDisk(dir string) error {
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=1g"); err != nil {
		return fmt.Errorf("mount a file system at %s: %w", data, err)
	}
	return nil
}
