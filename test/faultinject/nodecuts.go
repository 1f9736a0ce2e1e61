package faultinject

// Isolate cuts node i off from its clients and the other nodes, silently and in both directions.
// The node keeps running.
func (n *Nodes) Isolate(i int) { n.change(func() { n.nodes[i].isolated = true }) }

// Rejoin ends Isolate. A link to another isolated node stays cut.
func (n *Nodes) Rejoin(i int) { n.change(func() { n.nodes[i].isolated = false }) }

// CutClients resets the clients of node i until HealClients. The node stays in the cluster.
func (n *Nodes) CutClients(i int) { n.change(func() { n.nodes[i].clientsCut = true }) }

// HealClients lets clients reach node i again, unless it is isolated.
func (n *Nodes) HealClients(i int) { n.change(func() { n.nodes[i].clientsCut = false }) }

// change changes which nodes are cut off and updates every link.
func (n *Nodes) change(what func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	what()
	for _, node := range n.nodes {
		switch {
		case node.isolated:
			node.clients.Cut(Blackhole)
		case node.clientsCut:
			node.clients.Cut(Reset)
		default:
			node.clients.Heal()
		}
	}
	for _, r := range n.routes {
		if r.from.isolated || r.to.isolated {
			r.link.Cut(Blackhole)
		} else {
			r.link.Heal()
		}
	}
}
