package consumer

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/subject"
)

// garbage returns data that is not a request.
func garbage(size int) []byte { return bytes.Repeat([]byte{0xff}, size) }

// publishGarbage puts unreadable messages into a tenant's inbox.
func publishGarbage(t testing.TB, b *broker.Broker, tenant string, count, size int) {
	t.Helper()
	const atOnce = 32 // three nodes do not confirm very many in time under -race
	data := garbage(size)
	for left := count; left > 0; left -= atOnce {
		var answers []jetstream.PubAckFuture
		for range min(left, atOnce) {
			ack, err := b.JetStream().PublishMsgAsync(&nats.Msg{Subject: b.Names().Request(subject.Video, tenant), Data: data})
			if err != nil {
				t.Fatal(err)
			}
			answers = append(answers, ack)
		}
		for _, ack := range answers {
			select {
			case <-ack.Ok():
			case err := <-ack.Err():
				t.Fatal(err)
			}
		}
	}
}

// countOn counts the messages of a stream on a pattern.
func countOn(t testing.TB, b *broker.Broker, stream, filter string) (n uint64) {
	t.Helper()
	s, err := b.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(filter))
	if err != nil {
		t.Fatal(err)
	}
	for _, count := range info.State.Subjects {
		n += count
	}
	return n
}

// TestGarbagePushesOutNoDeadLetter proves that one tenant's unreadable requests displace neither
// dead letters of jobs nor those of other tenants.
func TestGarbagePushesOutNoDeadLetter(t *testing.T) {
	t.Parallel()
	limits := broker.Limits{DeadMaxBytes: 4 << 20, RejectedMaxBytes: 64 << 20}
	const count, size = 200, 100 << 10
	b := brokertest.SingleLimited(t, limits)
	r := newReplica(t, b, testConfig(t, newSandbox(t).URL()))
	publishGarbage(t, b, "careful", 1, 10)
	paid := publish(t, b, subject.Video, "paid", videoRequest("paid", "sandbox-video:drop=after_create", "a cat"))
	if end := last(follow(t, r.log, paid)); end.Job.GetError().GetCode() != "submission_outcome_unknown" {
		t.Fatalf("the paid job ended %v", end.Job.GetError())
	}
	publishGarbage(t, b, "noisy", count, size)
	publishGarbage(t, b, "noisy", 5*count, 1)
	r.eventually(t, "an empty inbox", func() bool { return countOn(t, b, b.Names().Requests(), ">") == 0 })
	checkDeadLetterOf(t, b, paid)
	if n := countOn(t, b, b.Names().Rejected(), b.Names().RejectedDeadLetters(subject.Video, "careful")); n != 1 {
		t.Errorf("%d dead letters of the careful tenant's request", n)
	}
	if n := countOn(t, b, b.Names().Rejected(), b.Names().RejectedDeadLetter(subject.Video, "noisy", "large")); n != broker.RejectedPerSubject {
		t.Errorf("%d large dead letters of the noisy tenant, want %d", n, broker.RejectedPerSubject)
	}
	if n := countOn(t, b, b.Names().Rejected(), b.Names().RejectedDeadLetters(subject.Video, "noisy")); n != 5*count+broker.RejectedPerSubject {
		t.Errorf("%d dead letters of the noisy tenant, want the small ones and the last of the large ones", n)
	}
}

// checkDeadLetterOf checks that the only dead letter in GENBUS_DEAD is the job's, with its request.
func checkDeadLetterOf(t testing.TB, b *broker.Broker, id string) {
	t.Helper()
	if n := countOn(t, b, b.Names().Dead(), ">"); n != 1 {
		t.Errorf("%d dead letters of jobs, want 1", n)
	}
	m, err := b.Last(t.Context(), b.Names().Dead(), b.Names().DeadLetter(subject.Video, "acme", id))
	if err != nil {
		t.Fatal(err)
	}
	var letter genbusv1.DeadLetter
	if err := proto.Unmarshal(m.Data, &letter); err != nil || len(letter.GetData()) == 0 {
		t.Errorf("the dead letter is %v, %v", &letter, err)
	}
}

// TestARejectedRequestThatIsTooLargeIsCut proves that the dead letter of a large rejected request
// is cut and describes it, and that a smaller one stays whole for a redrive.
func TestARejectedRequestThatIsTooLargeIsCut(t *testing.T) {
	t.Parallel()
	b := brokertest.Single(t)
	r := newReplica(t, b, testConfig(t, newSandbox(t).URL()))
	headers := nats.Header{}
	for i := range 50 {
		headers.Set(fmt.Sprint("x-", i), string(bytes.Repeat([]byte("h"), 1000)))
	}
	for tenant, row := range map[string]struct {
		size   int
		header nats.Header
		kept   int
	}{
		"whole":   {200 << 10, nil, 200 << 10},
		"large":   {1 << 20, nil, 4 << 10},
		"headers": {250 << 10, headers, 4 << 10},
	} {
		m := &nats.Msg{Subject: b.Names().Request(subject.Video, tenant), Data: garbage(row.size), Header: row.header}
		if _, err := b.Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		var stored broker.Stored
		r.eventually(t, tenant, func() (there bool) {
			var err error
			stored, err = b.Last(t.Context(), b.Names().Rejected(), b.Names().RejectedDeadLetters(subject.Video, tenant))
			return err == nil
		})
		var l genbusv1.DeadLetter
		if err := proto.Unmarshal(stored.Data, &l); err != nil {
			t.Fatal(err)
		}
		if len(stored.Data) > 264<<10 || len(l.GetData()) != row.kept || l.GetDataRef() != nil {
			t.Errorf("%s: a dead letter of %d bytes with %d of data", tenant, len(stored.Data), len(l.GetData()))
		}
		sum := sha256.Sum256(m.Data)
		if cut := l.GetCut(); tenant == "whole" && cut != nil ||
			tenant != "whole" && (cut.GetSize() != uint64(row.size) || !bytes.Equal(cut.GetSha256(), sum[:]) || len(l.GetHeaders()) > 4) {
			t.Errorf("%s: cut is %v, with %d headers", tenant, cut, len(l.GetHeaders()))
		}
	}
	if store, err := b.JetStream().ObjectStore(t.Context(), b.Names().Bodies("large")); err == nil {
		t.Errorf("garbage has made an object store: %v", store)
	}
}
