package console

// viewer is who looks at the console.
type viewer struct {
	Name string
	// Acts is whether the key opens what changes something.
	Acts bool
	// Local is whether no login was needed.
	Local         bool
	authorization string
}
