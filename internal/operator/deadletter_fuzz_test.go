package operator

import (
	"testing"

	"google.golang.org/protobuf/proto"

	genbusv1 "github.com/genbus/genbus/gen/genbus/v1"
	"github.com/genbus/genbus/internal/broker"
)

// FuzzDecodeDeadLetter checks that any message in the stream of dead letters can be shown to an
// operator.
func FuzzDecodeDeadLetter(f *testing.F) {
	good, err := proto.Marshal(&genbusv1.DeadLetter{Id: "video_aaaaaaaaaaaaaaaaaaaaaaaaaa", Kind: "video", Tenant: "acme", Subject: "s", Data: []byte("x"), Headers: []*genbusv1.Header{{Key: "a", Values: []string{"b"}}}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range [][]byte{nil, good, good[:len(good)/2], []byte("\x0a\xff\xff\xff\xff\x0f"), []byte("\x12\x02\xff\xfe"), []byte("{}")} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		l := decode(broker.Stored{Subject: "genbus.dead.video.acme.x", Seq: 7, Data: data})
		if l.seq != 7 || l.DeadLetter == nil || proto.Unmarshal(data, &genbusv1.DeadLetter{}) != nil && l.GetError() == nil {
			t.Fatalf("%+v", l)
		}
		if _, err := proto.Marshal(l.stored()); err != nil {
			t.Fatal(err)
		}
	})
}
