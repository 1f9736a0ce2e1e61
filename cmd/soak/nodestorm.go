package main

import (
	"context"
	"fmt"

	"github.com/genbus/genbus/test/faultinject"
	"github.com/genbus/genbus/test/faultinject/check"
)

var nodeKinds = map[action]check.FaultKind{
	nodeKill: check.FaultNodeKill, nodeStop: check.FaultNodeStop, isolate: check.FaultIsolate, isolateTwo: check.FaultIsolate, cutClients: check.FaultCut,
}

// node breaks a node, heals it and waits until the cluster has recovered. The fault ends with the
// recovery.
func (s *storm) node(ctx context.Context, at step) error {
	end := s.begin(check.Fault{Kind: nodeKinds[at.Action], Target: fmt.Sprintf("node %d", at.Target), Broker: true})
	defer end()
	if err := s.breakNode(at); err != nil {
		return err
	}
	faultinject.Pause(ctx, at.For)
	if err := s.healNode(ctx, at); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
	defer cancel()
	if err := s.fleet.nodes.WaitHealthy(ctx); err != nil {
		return fmt.Errorf("the broker does not recover: %w", err)
	}
	return nil
}

// second returns the other node of isolateTwo.
func second(i int) int { return (i + 1) % nodeCount }

func (s *storm) breakNode(at step) error {
	n := s.fleet.nodes
	switch at.Action {
	case nodeKill:
		return n.Kill(at.Target)
	case nodeStop:
		return n.Process(at.Target).Stop()
	case isolateTwo:
		n.Isolate(second(at.Target))
		n.Isolate(at.Target)
	case cutClients:
		n.CutClients(at.Target)
	default:
		n.Isolate(at.Target)
	}
	return nil
}

func (s *storm) healNode(ctx context.Context, at step) error {
	n := s.fleet.nodes
	switch at.Action {
	case nodeKill:
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healTimeout)
		defer cancel()
		return n.Restart(ctx, at.Target)
	case nodeStop:
		return n.Process(at.Target).Continue()
	case isolateTwo:
		n.Rejoin(second(at.Target))
		n.Rejoin(at.Target)
	case cutClients:
		n.HealClients(at.Target)
	default:
		n.Rejoin(at.Target)
	}
	return nil
}
