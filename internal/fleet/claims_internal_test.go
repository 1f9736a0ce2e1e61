package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

// member is a replica with leases, and the keys passed to Changed.
type member struct {
	*Claims
	leases  map[string]*Lease
	changed chan string
}

func newMember(conn *nats.Conn, self string, keys ...string) *member {
	m := &member{leases: map[string]*Lease{}, changed: make(chan string, 100)}
	for _, key := range keys {
		m.leases[key] = NewLease(self)
	}
	m.Claims = NewClaims(ClaimsOptions{
		Conn: conn, Subject: "claims", Self: self,
		All:     func() map[string]*Lease { return maps.Clone(m.leases) },
		Lease:   func(key string) *Lease { return m.leases[key] },
		Changed: func(key string) { m.changed <- key },
	})
	return m
}

// start runs the member until the test ends, and waits until it listens.
func (m *member) start(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		m.Run(ctx, brokertest.Logger(t))
	}()
	t.Cleanup(func() { stop(); <-stopped })
	for m.ListenRemaining(time.Now()) == listenFor {
		select {
		case <-stopped:
			t.Fatal("it does not listen")
		case <-time.After(time.Millisecond):
		}
	}
	if err := m.o.Conn.Flush(); err != nil {
		t.Fatal(err)
	}
}

func (m *member) awaitChange(t *testing.T, key string) {
	t.Helper()
	select {
	case got := <-m.changed:
		if got != key {
			t.Fatalf("the lease %s has changed; want %s", got, key)
		}
	case <-time.After(brokertest.Patience):
		t.Fatalf("the lease %s has not changed", key)
	}
}

// TestReplicasLearnOfLeases checks that replicas learn by key when a lease is taken, changes its
// flag, or is released.
func TestReplicasLearnOfLeases(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	first, second := newMember(b.Conn(), "a", "0", "1", "other"), newMember(b.Conn(), "b", "0", "1")
	wire, err := b.Conn().SubscribeSync("claims")
	if err != nil {
		t.Fatal(err)
	}
	second.start(t)
	for key, l := range first.leases {
		l.Take(time.Now(), key == "1")
	}
	first.Announce("other", "unknown")
	first.Announce("1")
	second.awaitChange(t, "1")
	if holder, flag, _ := second.leases["1"].Holder(time.Now()); holder != "a" || !flag {
		t.Errorf("%q holds the lease with the flag %v", holder, flag)
	}
	first.start(t)
	second.awaitChange(t, "0") // from the claims sent once a second
	first.Release("unknown")
	second.Release("1") // which it does not hold
	first.Release("0")
	second.awaitChange(t, "0")
	if !second.leases["0"].Vacant(time.Now()) {
		t.Error("the lease that was given up is not vacant")
	}
	last := ""
	for _, want := range []string{
		`{"replica":"b","ask":true}`,
		`{"replica":"a","claims":{"other":{"term":1}}}`,
		`{"replica":"a","claims":{"1":{"term":1,"flag":true}}}`,
		`{"replica":"a","ask":true}`,
		`{"replica":"a","claims":{"0":{"term":1},"1":{"term":1,"flag":true},"other":{"term":1}}}`,
		`{"replica":"a","released":["0"]}`,
	} {
		sent := last
		for sent == last { // skip repeats
			m, err := wire.NextMsg(brokertest.Patience)
			if err != nil {
				t.Fatal(err)
			}
			sent = string(m.Data)
		}
		if last = sent; sent != want {
			t.Fatalf("%s was sent; want %s", sent, want)
		}
	}
	if len(first.changed) > 0 {
		t.Error("the replica that holds the leases was told that they have changed")
	}
}

// TestHoldersAnswerAtOnce checks that holders answer a replica that starts to listen, and that a
// stuck holder gives way.
func TestHoldersAnswerAtOnce(t *testing.T) {
	t.Parallel()
	conn := brokertest.Single(t).Conn()
	holder := newMember(conn, "a", "0", "1")
	sub, err := conn.Subscribe("claims", holder.handle) // not Run, which claims without being asked
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	holder.leases["0"].Take(time.Now(), true)
	holder.leases["1"].Take(time.Now(), true)
	holder.leases["1"].Report(time.Now(), true, true)
	other := newMember(conn, "b", "0", "1")
	other.leases["1"].Take(time.Now(), false)
	other.start(t)
	other.awaitChange(t, "0")
	if !other.leases["1"].Held() {
		t.Error("a replica gives its lease to one that fails")
	}
	if fails, _ := other.leases["1"].Failing(time.Now()); fails != "a" {
		t.Errorf("%q is known to fail", fails)
	}
	other.Announce("1")
	holder.awaitChange(t, "1")
	if holder.leases["1"].Held() {
		t.Error("a holder that is stuck does not give way")
	}
}

// TestClaimsAreSplit checks that many claims are split into several messages.
func TestClaimsAreSplit(t *testing.T) {
	t.Parallel()
	const many = 2*maxClaims + 1
	var keys []string
	for i := range many {
		keys = append(keys, fmt.Sprint(strings.Repeat("k", 40), i))
	}
	b := brokertest.Single(t)
	m := newMember(b.Conn(), "a", keys...)
	for _, l := range m.leases {
		l.Take(time.Now(), true)
	}
	wire, err := b.Conn().SubscribeSync("claims")
	if err != nil {
		t.Fatal(err)
	}
	m.Announce(keys...)
	claimed := map[string]claim{}
	for range 3 {
		sent, err := wire.NextMsg(brokertest.Patience)
		if err != nil {
			t.Fatal(err)
		}
		var decoded message
		if err := json.Unmarshal(sent.Data, &decoded); err != nil || len(decoded.Claims) > maxClaims {
			t.Fatalf("%d claims in one message: %v", len(decoded.Claims), err)
		}
		maps.Copy(claimed, decoded.Claims)
	}
	if len(claimed) != many {
		t.Errorf("%d leases were claimed of %d", len(claimed), many)
	}
}

// FuzzClaims checks that no message makes a replica believe that it holds a lease, or gives a lease
// two holders.
func FuzzClaims(f *testing.F) {
	f.Add([]byte(`{"replica":"r01","claims":{"0":{"term":3,"flag":true}}}`))
	f.Add([]byte(`{"replica":"r01","released":["0"]}`))
	f.Add([]byte(`{"replica":"me","claims":{"0":{"term":18446744073709551615}}}`))
	f.Add([]byte(`{"claims":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := NewLease("me")
		c := NewClaims(ClaimsOptions{
			Self: "me", Changed: func(string) {}, All: func() map[string]*Lease { return nil },
			Lease: func(key string) *Lease {
				if key == "0" {
					return l
				}
				return nil
			},
		})
		for range 2 {
			c.handle(&nats.Msg{Data: data})
		}
		now := time.Now()
		holder, flag, held := l.Holder(now)
		if l.Held() || holder == "me" || held == l.Vacant(now) || !held && (flag || holder != "") {
			t.Errorf("after %q the lease is %+v", data, l)
		}
	})
}
