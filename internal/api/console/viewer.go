package console

// viewer is an operator who uses the console.
type viewer struct {
	Name string
	// Acts reports whether the key allows changes.
	Acts bool
	// Local reports whether no login was needed.
	Local         bool
	authorization string
}
