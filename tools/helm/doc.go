// Package helm holds the chart of deploy/helm to Helm and to Kubernetes: it is
// linted, rendered with several sets of values, and decoded with the types of the
// Kubernetes API, where a field that does not exist is an error. What is rendered
// is next to the values, so that a change of it is seen in a review; the tests of
// package deploy read it without Helm.
//
// It is tests alone, in a module of its own, so that nothing of Helm reaches genbus.
package helm
