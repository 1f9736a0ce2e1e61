package cli

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/broker/brokertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...) }
