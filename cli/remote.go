package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/millrace-io/millrace/query/remote"
)

// remoteSettings are those of the address for other processes.
type remoteSettings struct {
	Remote           string `help:"Address at which other processes may ask, as actors and over HTTP; on anything but loopback it needs a token or certificates. It is what other nodes name as the owner." placeholder:"HOST:PORT"`
	RemoteTokenFile  string `help:"File that holds alone the bearer token that callers at --remote need: 16 characters or more; or give it in MILLRACE_REMOTE_TOKEN." placeholder:"FILE"`
	RemoteToken      secret `hidden:"" help:"Bearer token that callers at --remote need."`
	RemoteCert       string `help:"PEM file with this node's certificate for --remote." placeholder:"FILE"`
	RemoteKey        string `help:"PEM file with its key." placeholder:"FILE"`
	RemoteCA         string `help:"PEM file with the certificates by which callers at --remote are known (mutual TLS)." name:"remote-ca" placeholder:"FILE"`
	RemoteAdvertised string `help:"Address by which callers reach --remote, if it is another." placeholder:"HOST:PORT"`
}

// options are the settings as the node takes them; it fails on files that cannot be used.
func (r *remoteSettings) options(log *slog.Logger) (all []remote.Option, err error) {
	if r.Remote == "" {
		if string(r.RemoteToken)+r.RemoteTokenFile+r.RemoteCert+r.RemoteKey+r.RemoteCA+r.RemoteAdvertised != "" {
			return nil, usagef("--remote-token-file, MILLRACE_REMOTE_TOKEN, --remote-cert, --remote-key, --remote-ca and --remote-advertised say nothing without --remote; give it an address")
		}
		return nil, nil
	}
	token, err := r.RemoteToken.given("remote-token", r.RemoteTokenFile)
	if err != nil {
		return nil, err
	}
	if token != "" {
		if err := remote.Check("127.0.0.1:0", remote.WithToken(string(token))); err != nil {
			return nil, &UsageError{Detail: "the token of --remote-token-file or MILLRACE_REMOTE_TOKEN cannot be used: " + err.Error(), Cause: err}
		}
		all = append(all, remote.WithToken(string(token)))
	}
	if r.RemoteAdvertised != "" {
		all = append(all, remote.WithAdvertised(r.RemoteAdvertised))
	}
	c, err := tlsFlags{"remote-ca", "remote-cert", "remote-key"}.server(r.RemoteCA, r.RemoteCert, r.RemoteKey, log)
	if err != nil {
		return nil, err
	}
	if c != nil {
		c.RootCAs = c.ClientCAs // this node connects to others too
		all = append(all, remote.WithTLS(c))
	}
	return all, r.guarded(remote.Check(r.Remote, all...))
}

// guarded says what is wrong in the words of the command line.
func (r *remoteSettings) guarded(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, remote.ErrUnguarded):
		return &UsageError{Detail: fmt.Sprintf("other machines can reach --remote %s, and nothing says who may ask; give --remote-token-file, or --remote-cert, --remote-key and --remote-ca (mutual TLS), or an address of 127.0.0.1", r.Remote), Cause: err}
	}
	return &UsageError{Detail: fmt.Sprintf("--remote %s cannot be used: %s", r.Remote, strings.ReplaceAll(err.Error(), "WithAdvertised", "--remote-advertised")), Cause: err}
}
