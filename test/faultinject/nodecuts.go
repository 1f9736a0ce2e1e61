package faultinject

// Isolate cuts node i off from its clients and from the other nodes, both ways and
// silently. The node itself goes on.
func (n *Nodes) Isolate(i int) { n.change(func() { n.nodes[i].isolated = true }) }

// Rejoin ends what Isolate has done. A link to a node that is still isolated stays
// cut.
func (n *Nodes) Rejoin(i int) { n.change(func() { n.nodes[i].isolated = false }) }

// CutClients resets the clients of node i, now and until HealClients. The node
// stays in the cluster.
func (n *Nodes) CutClients(i int) { n.change(func() { n.nodes[i].clientsCut = true }) }

// HealClients lets clients reach node i again, unless it is isolated.
func (n *Nodes) HealClients(i int) { n.change(func() { n.nodes[i].clientsCut = false }) }

// change changes what is cut and brings every link into that state.
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
