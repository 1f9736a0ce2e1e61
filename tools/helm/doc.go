// Package helm tests the chart in deploy/helm with Helm and the Kubernetes API types: it lints the
// chart, renders it with several sets of values, and rejects unknown fields. The renderings are
// stored next to the values, so that reviews show their changes and package deploy can test them
// without Helm.
//
// It is a separate module, so that genbus does not depend on Helm.
package helm
