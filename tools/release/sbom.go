package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdx/v2/common"
)

const noAssertion = "NOASSERTION" // in SPDX

// writeSBOM lists genbus, the Go standard library, and the modules in the binaries.
func (r *release) writeSBOM() error {
	main := r.binaries[0].info.Main
	document := &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName:      "genbus " + r.tag,
		DocumentNamespace: fmt.Sprintf("%s/spdx/%s-%s", repository, r.tag, r.commit),
		CreationInfo: &spdx.CreationInfo{
			Created:  r.time.UTC().Format(time.RFC3339),
			Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "genbus-" + r.tag}},
		},
		Packages: []*spdx.Package{golang("genbus", main.Path, r.tag)},
	}
	document.Packages[0].PackageLicenseDeclared = "Apache-2.0"
	document.Packages = append(document.Packages, golang("go", "stdlib", strings.TrimPrefix(r.goVersion, "go")))
	for i, m := range r.modules() {
		path, version, _ := strings.Cut(m, "@")
		document.Packages = append(document.Packages, golang(spdx.ElementID(fmt.Sprintf("module-%d", i+1)), path, version))
	}
	relate := func(from spdx.ElementID, relationship string, to *spdx.Package) {
		document.Relationships = append(document.Relationships, &spdx.Relationship{
			RefA: spdx.DocElementID{ElementRefID: from}, Relationship: relationship, RefB: spdx.DocElementID{ElementRefID: to.PackageSPDXIdentifier},
		})
	}
	relate(document.SPDXIdentifier, common.TypeRelationshipDescribe, document.Packages[0])
	for _, p := range document.Packages[1:] {
		relate(document.Packages[0].PackageSPDXIdentifier, common.TypeRelationshipDependsOn, p)
	}
	data, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	return r.write("genbus_"+r.tag+"_sbom.spdx.json", data)
}

func golang(id spdx.ElementID, path, version string) *spdx.Package {
	return &spdx.Package{
		PackageName: path, PackageSPDXIdentifier: id, PackageVersion: version,
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + path + "@" + url.QueryEscape(version),
		}},
	}
}
