package faultinject

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"golang.org/x/sync/errgroup"

	"github.com/genbus/genbus/test/freeport"
)

// NodesOptions configure a cluster.
type NodesOptions struct {
	// Dir holds a store directory and a log for each node: n0, n0.log, n1... Required.
	Dir string
	// N is the number of nodes, at least 2. Default 3.
	N int
	// SyncAlways syncs every write. Default false.
	SyncAlways bool
	// MaxPayload is the maximum size of a message, in bytes. Default 8 MiB.
	MaxPayload int
}

// Nodes is a JetStream cluster of nats-server processes on this machine. Clients and routes go
// through Links. There is one Link for the clients of each node, and one in each direction for each
// pair of nodes. The nodes do not know any addresses that bypass the Links. Nodes is safe for
// concurrent use.
type Nodes struct {
	nodes  []*node
	routes []route

	mu sync.Mutex // guards which nodes are cut off
}

// node is a server with the link for its clients.
type node struct {
	spec    nodeSpec
	process *Process
	clients *Link

	isolated   bool
	clientsCut bool
}

// route is a node's link to another node.
type route struct {
	from, to *node
	link     *Link
}

// StartNodes starts a cluster and waits until it is healthy and accepts streams. The program must
// call MaybeServeNode first.
func StartNodes(ctx context.Context, o NodesOptions) (*Nodes, error) {
	o.N = cmp.Or(o.N, 3)
	if o.N < 2 {
		return nil, fmt.Errorf("start %d nodes: a cluster has at least 2", o.N)
	}
	n := &Nodes{}
	err := n.prepare(o)
	if err == nil {
		err = n.start(ctx, o.Dir)
	}
	if err == nil {
		err = n.WaitHealthy(ctx)
	}
	if err == nil {
		err = n.probe(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %d nodes: %w", o.N, err), n.Close())
	}
	return n, nil
}

// prepare assigns ports and links to each node. The ports stay the same across restarts, because
// the links depend on them.
func (n *Nodes) prepare(o NodesOptions) error {
	ports, err := freeport.Ports(3 * o.N)
	if err != nil {
		return err
	}
	for i := range o.N {
		name := "n" + strconv.Itoa(i)
		spec := nodeSpec{
			Name: name, Dir: filepath.Join(o.Dir, name), SyncAlways: o.SyncAlways, MaxPayload: cmp.Or(o.MaxPayload, nodePayload),
			Client: ports[3*i], Route: ports[3*i+1], Monitor: ports[3*i+2],
		}
		clients, err := NewLink(local(spec.Client))
		if err != nil {
			return err
		}
		n.nodes = append(n.nodes, &node{spec: spec, clients: clients})
	}
	for _, from := range n.nodes {
		for _, to := range n.nodes {
			if err := n.route(from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// route links one node to another. It does nothing if they are the same.
func (n *Nodes) route(from, to *node) error {
	if from == to {
		return nil
	}
	l, err := NewLink(local(to.spec.Route))
	if err != nil {
		return err
	}
	from.spec.Routes = append(from.spec.Routes, l.Addr())
	n.routes = append(n.routes, route{from: from, to: to, link: l})
	return nil
}

func (n *Nodes) start(ctx context.Context, dir string) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	var group errgroup.Group
	for _, node := range n.nodes {
		spec, err := json.Marshal(node.spec)
		if err != nil {
			return err
		}
		node.process = &Process{spec: Spec{
			Path: program, Env: append(os.Environ(), nodeEnv+"="+string(spec)), Leash: true,
			Log: filepath.Join(dir, node.spec.Name+".log"), Ready: node.answers,
		}}
		group.Go(func() error { return node.process.Restart(ctx) })
	}
	return group.Wait()
}

// Len returns the number of nodes.
func (n *Nodes) Len() int { return len(n.nodes) }

// ClientURL returns the URL of node i for clients, through its link.
func (n *Nodes) ClientURL(i int) string { return "nats://" + n.nodes[i].clients.Addr() }

// ClientURLs returns the client URLs of all nodes, separated by commas.
func (n *Nodes) ClientURLs() string {
	urls := make([]string, 0, len(n.nodes))
	for i := range n.nodes {
		urls = append(urls, n.ClientURL(i))
	}
	return strings.Join(urls, ",")
}

// Process returns the process of node i, for other signals.
func (n *Nodes) Process(i int) *Process { return n.nodes[i].process }

// Kill kills node i (SIGKILL).
func (n *Nodes) Kill(i int) error { return n.nodes[i].process.Kill() }

// Restart starts node i again with its stored data and waits until it answers. The node may still
// be catching up; see WaitHealthy.
func (n *Nodes) Restart(ctx context.Context, i int) error { return n.nodes[i].process.Restart(ctx) }

// Close kills the nodes and closes the links. It keeps the directories.
func (n *Nodes) Close() error {
	var errs []error
	for _, node := range n.nodes {
		if node.process != nil {
			errs = append(errs, node.process.Kill())
		}
		errs = append(errs, node.clients.Close())
	}
	for _, r := range n.routes {
		errs = append(errs, r.link.Close())
	}
	return errors.Join(errs...)
}

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
