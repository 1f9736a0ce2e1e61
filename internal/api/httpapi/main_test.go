package httpapi_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/genbus/genbus/internal/api/apitest"
	"github.com/genbus/genbus/internal/broker/brokertest"
	"github.com/genbus/genbus/internal/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(brokertest.Tests{M: m}, brokertest.Leaks()...) }

type world struct{ *apitest.World }

func newWorld(t testing.TB, change ...func(*config.Config)) *world {
	t.Helper()
	return &world{apitest.New(t, change...)}
}

type tenancy struct {
	*apitest.Tenancy
	deadLetter uint64 // sequence of a dead letter of acme
}

func newTenancy(t *testing.T) *tenancy {
	t.Helper()
	return &tenancy{Tenancy: apitest.NewTenancy(t)}
}
