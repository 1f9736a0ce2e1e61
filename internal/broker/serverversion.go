package broker

import (
	"fmt"

	"golang.org/x/mod/semver"
)

// oldestServer is the oldest NATS server with every fix listed in
// docs/deploy.md#versions-of-the-servers.
const oldestServer = "2.15.1"

// fixes lists the latest of these fixes, oldest first.
var fixes = []struct{ since, without string }{
	{"2.15.0", "accept the header Nats-Stream-Source from clients, so a tenant's subscriber could send requests"},
	{oldestServer, "do not sync a compacted Raft log, so a power loss could lose confirmed writes"},
}

// checkVersion returns an error if a server lacks a fix that genbus's promises depend on. version is
// empty while there is no connection.
func checkVersion(server, version string) error {
	for _, fix := range fixes {
		if version != "" && semver.Compare("v"+version, "v"+fix.since) < 0 {
			return fmt.Errorf("NATS server %s has version %s; upgrade it to %s or newer (older servers %s)", server, version, oldestServer, fix.without)
		}
	}
	return nil
}
