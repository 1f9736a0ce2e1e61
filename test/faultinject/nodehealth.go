package faultinject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
)

const healthEvery = 100 * time.Millisecond

// view is one node's view of the cluster (/jsz). Only the leader of a group knows the state of its
// replicas.
type view struct {
	Meta     *group `json:"meta_cluster"`
	Accounts []struct {
		Streams []struct {
			Name      string `json:"name"`
			Cluster   *group `json:"cluster"`
			Consumers []struct {
				Name    string `json:"name"`
				Cluster *group `json:"cluster"`
			} `json:"consumer_detail"`
		} `json:"stream_detail"`
	} `json:"account_details"`
}

type group struct {
	Leader   string `json:"leader"`
	Replicas []peer `json:"replicas"`
}

type peer struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Offline bool   `json:"offline"`
}

// groups returns the groups of the node by name. The name of the meta group is "".
func (v view) groups() map[string]*group {
	out := map[string]*group{"": v.Meta}
	for _, a := range v.Accounts {
		for _, s := range a.Streams {
			out[s.Name] = s.Cluster
			for _, c := range s.Consumers {
				out[s.Name+" > "+c.Name] = c.Cluster
			}
		}
	}
	return out
}

// ask reads from the node's monitoring port. No link leads to that port, so the harness can reach
// isolated nodes.
func (n *node) ask(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+local(n.spec.Monitor)+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := oneShot.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("node %s: %s: status %d: %s", n.spec.Name, path, resp.StatusCode, body[:min(len(body), 200)])
	}
	return body, err
}

// answers checks that JetStream is enabled on the node, even without a cluster.
func (n *node) answers(ctx context.Context) error {
	_, err := n.ask(ctx, "/healthz?js-enabled-only=true")
	return err
}

func (n *node) view(ctx context.Context) (view, error) {
	var v view
	body, err := n.ask(ctx, "/jsz?accounts=true&streams=true&consumers=true")
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(body, &v); err != nil {
		return v, fmt.Errorf("node %s: /jsz: %w", n.spec.Name, err)
	}
	return v, nil
}

// neighbours returns the sorted names of the nodes that this node has routes to, once for each
// route.
func (n *node) neighbours(ctx context.Context) ([]string, error) {
	body, err := n.ask(ctx, "/routez")
	if err != nil {
		return nil, err
	}
	var answer struct {
		Routes []struct {
			Name string `json:"remote_name"`
		} `json:"routes"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("node %s: /routez: %w", n.spec.Name, err)
	}
	var names []string
	for _, r := range answer.Routes {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	return names, nil
}

// WaitHealthy waits until all nodes run, have all routes and agree on a meta leader, and until
// every stream and consumer has a leader with current replicas. If ctx ends first, the error names
// the missing condition.
func (n *Nodes) WaitHealthy(ctx context.Context) error {
	for {
		missing := n.healthy(ctx)
		if missing == nil {
			return nil
		}
		if !Pause(ctx, healthEvery) {
			return fmt.Errorf("the cluster is not healthy: %w", errors.Join(missing, ctx.Err()))
		}
	}
}

func (n *Nodes) healthy(ctx context.Context) error {
	views := map[string]view{}
	for _, node := range n.nodes {
		if _, err := node.ask(ctx, "/healthz"); err != nil {
			return err
		}
		if have, err := node.neighbours(ctx); err != nil || len(have) < (len(n.nodes)-1)*routesPerPair {
			return errors.Join(fmt.Errorf("node %s has routes to %v", node.spec.Name, have), err)
		}
		v, err := node.view(ctx)
		if err != nil {
			return err
		}
		views[node.spec.Name] = v
	}
	for name, v := range views {
		for what, g := range v.groups() {
			if err := wellLed(what, g, views); err != nil {
				return fmt.Errorf("as %s sees it: %w", name, err)
			}
		}
	}
	return n.complete(views)
}

// wellLed checks that the group that a node names has current replicas and a leader that knows of
// it.
func wellLed(what string, g *group, views map[string]view) error {
	if g == nil || g.Leader == "" {
		return fmt.Errorf("%s has no leader", nameOf(what))
	}
	led := views[g.Leader].groups()[what]
	if led == nil || led.Leader != g.Leader {
		return fmt.Errorf("%s has a leader (%s) that does not know of it", nameOf(what), g.Leader)
	}
	for _, p := range led.Replicas {
		if p.Offline || !p.Current {
			return fmt.Errorf("%s: the replica on %s is not current", nameOf(what), p.Name)
		}
	}
	return nil
}

// complete checks that the meta group contains all nodes.
func (n *Nodes) complete(views map[string]view) error {
	for _, v := range views {
		if have := len(views[v.Meta.Leader].Meta.Replicas) + 1; have != len(n.nodes) {
			return fmt.Errorf("the meta group has %d of %d nodes", have, len(n.nodes))
		}
	}
	return nil
}

func nameOf(group string) string {
	if group == "" {
		return "the meta group"
	}
	return group
}

// LeaderOf returns the node that leads a stream with a replica on every node. An empty name means
// the meta group. The leader is the node that a majority of nodes names, because an isolated leader
// may not know yet that it is no longer the leader.
func (n *Nodes) LeaderOf(ctx context.Context, stream string) (int, error) {
	votes := map[string]int{}
	for _, node := range n.nodes {
		if v, err := node.view(ctx); err == nil {
			if g := v.groups()[stream]; g != nil {
				votes[g.Leader]++
			}
		}
	}
	for i, node := range n.nodes {
		if votes[node.spec.Name] > len(n.nodes)/2 {
			return i, nil
		}
	}
	return 0, fmt.Errorf("no majority names a leader of %s", nameOf(stream))
}
