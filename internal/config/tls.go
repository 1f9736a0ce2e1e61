package config

// ServerTLS configures a server's TLS. Changed files are reloaded at run time.
type ServerTLS struct {
	// PEM file of the server's certificate and its intermediates; empty for no TLS. Default: none.
	CertFile string `yaml:"cert_file"`
	// PEM file of the private key. Default: none.
	KeyFile string `yaml:"key_file"`
	// PEM file with CA certificates. If set, every client must present a certificate of these CAs in
	// addition to its API key. Default: none.
	ClientCAFile string `yaml:"client_ca_file"`
}

// Enabled reports whether the server speaks TLS.
func (t ServerTLS) Enabled() bool { return t.CertFile != "" }

func (t ServerTLS) check(r *report, path string) {
	if (t.CertFile == "") != (t.KeyFile == "") {
		r.bad(path+".cert_file", t.CertFile, "cert_file and key_file together, or none of them")
	}
	if t.ClientCAFile != "" && t.CertFile == "" {
		r.bad(path+".client_ca_file", t.ClientCAFile, "cert_file and key_file as well: client certificates need TLS")
	}
}

// checkEmbeddedTLS checks the TLS settings of the embedded server for its clients.
func (n NATS) checkEmbeddedTLS(r *report) {
	t := n.TLS
	if (t.CertFile == "") != (t.KeyFile == "") {
		r.bad("nats.tls.cert_file", t.CertFile, "cert_file and key_file together, or none of them")
	}
	if t.CAFile != "" && t.CertFile == "" {
		r.bad("nats.tls.ca_file", t.CAFile, "cert_file and key_file as well, or nats.url (GENBUS_NATS_URL) of a cluster")
	}
	if t.CertFile != "" && n.Listen == ListenNone {
		r.bad("nats.tls.cert_file", t.CertFile, "nats.listen with an address: otherwise no client sees the certificate")
	}
}
