package jobtable

// Page sizes of Query and Search.
const (
	DefaultPage = 20
	MaxPage     = 100
)

// PageSize returns the page size for a caller that asks for n jobs.
func PageSize(n int) int {
	if n <= 0 {
		return DefaultPage
	}
	return min(n, MaxPage)
}
