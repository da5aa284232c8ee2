package cli

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/millrace-io/millrace/query"
)

// asking is what the verbs that ask a node have in common.
type asking struct {
	Addr      string        `help:"Node to ask: host:port, or https://host:port; by default 127.0.0.1:8080, where dev listens if it can." default:"127.0.0.1:8080" placeholder:"HOST:PORT"`
	Output    string        `help:"Form of the answer: table or json." short:"o" enum:"table,json" default:"table"`
	Timeout   time.Duration `help:"Time to wait for the answer; an order is waited for 25s at least." default:"5s"`
	Token     secret        `hidden:"" help:"Bearer token, if the node wants one."`
	TokenFile string        `help:"File that holds alone the bearer token, if the node wants one; or give it in MILLRACE_TOKEN." placeholder:"FILE"`
	CA        string        `help:"PEM file with the certificates to trust." name:"ca" placeholder:"FILE"`
	Cert      string        `help:"PEM file with this caller's certificate." placeholder:"FILE"`
	CertKey   string        `help:"PEM file with its key." placeholder:"FILE"`
}

// AskError is why a node gave no answer. It ends Run with an exit code by Retry: 10 here, 11 rediscover, 12 elsewhere,
// 13 never.
type AskError struct {
	// Detail is the failure's own sentence.
	Detail string
	Retry  query.RetryClass
	// Cause is the error behind it; nil if the node said it.
	Cause error
}

func (e *AskError) Error() string { return e.Detail }

// Unwrap gives the cause.
func (e *AskError) Unwrap() error { return e.Cause }

// exitAsk is the exit code of the first retry class.
const exitAsk = 10

// exit is the code of a failure of that class.
func (e *AskError) exit() int { return exitAsk + int(e.Retry) - int(query.Here) }

// maxHops is how many owners in a row are followed.
const maxHops = 4

// maxAnswer is the most bytes of an answer that are read.
const maxAnswer = 64 << 20

// asker asks one node after another, by the owners that failures name.
type asker struct {
	asking
	scheme, address string
	// named is the node that named address as an owner; empty if the caller did.
	named  string
	client *http.Client
}

func (a asking) open() (*asker, error) {
	out := &asker{asking: a, scheme: "http", address: a.Addr}
	for _, scheme := range []string{"http", "https"} {
		if rest, ok := strings.CutPrefix(a.Addr, scheme+"://"); ok {
			out.scheme, out.address = scheme, strings.TrimSuffix(rest, "/")
		}
	}
	if host, port, err := net.SplitHostPort(out.address); err != nil || host == "" || port == "" {
		return nil, usagef("--addr %q is no address; give host:port, such as 127.0.0.1:8080, or https://host:port", a.Addr)
	}
	if a.Timeout <= 0 {
		return nil, usagef("--timeout %s is not above zero; give a time such as 5s", a.Timeout)
	}
	var err error
	if out.Token, err = a.Token.given("token", a.TokenFile); err != nil {
		return nil, err
	}
	secure, err := tlsFlags{"ca", "cert", "cert-key"}.client(a.CA, a.Cert, a.CertKey, nil)
	if err != nil {
		return nil, err
	}
	out.client = &http.Client{Transport: &http.Transport{TLSClientConfig: secure}}
	return out, nil
}

func (a *asker) close() { a.client.CloseIdleConnections() }

// get asks for a path and follows owners. absent is the answer of a key that is not there.
func (a *asker) get(ctx context.Context, path string) (body []byte, err error) {
	return a.ask(ctx, http.MethodGet, path, nil)
}

// orderPatience is above the 20 s after which a node says that an order may be carried out yet: whoever left before would not
// be told.
const orderPatience = 25 * time.Second

// post gives an order.
func (a *asker) post(ctx context.Context, path string, order []byte) (body []byte, err error) {
	a.Timeout = max(a.Timeout, orderPatience)
	return a.ask(ctx, http.MethodPost, path, order)
}

func (a *asker) ask(ctx context.Context, method, path string, order []byte) (body []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	for hop := 0; ; hop++ {
		status, body, err := a.once(ctx, method, path, order)
		if err != nil {
			return nil, a.unreachable(ctx, err)
		}
		if status == http.StatusOK {
			return body, nil
		}
		var said struct {
			Found         *bool
			Detail, Owner string
			Retry         string
		}
		if json.Unmarshal(body, &said) != nil || said.Found == nil && said.Retry == "" {
			if a.scheme == "http" && status == http.StatusBadRequest && bytes.HasPrefix(body, []byte(wantsTLS)) {
				return nil, usagef("%s wants TLS; give --addr https://%s", a.address, a.address)
			}
			return nil, failf(nil, "%s answers %d, and not as a Millrace node does; give --addr the address of one", a.address, status)
		}
		switch {
		case said.Found != nil:
			return body, nil
		case said.Retry == query.Rediscover.String() && said.Owner != "" && hop < maxHops:
			a.named, a.address = a.address, said.Owner
			continue
		}
		if status == http.StatusUnauthorized {
			said.Detail += "; give it in MILLRACE_TOKEN or with --token-file"
		}
		return nil, &AskError{Detail: strings.TrimPrefix(said.Detail, "query: "), Retry: retryOf(said.Retry)}
	}
}

// wantsTLS is what Go's server answers to a request without TLS at a port that takes nothing else.
const wantsTLS = "Client sent an HTTP request to an HTTPS server"

func (a *asker) once(ctx context.Context, method, path string, order []byte) (status int, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, a.scheme+"://"+a.address+path, bytes.NewReader(order))
	if err != nil {
		return 0, nil, err
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	if a.Token != "" {
		r.Header.Set("Authorization", "Bearer "+string(a.Token))
	}
	answer, err := a.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	body, err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	return answer.StatusCode, bytes.TrimSpace(body), err
}

// unreachable is a node that does not answer: in time, or at all.
func (a *asker) unreachable(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.Canceled) {
		return &AskError{Detail: fmt.Sprintf("%s does not answer within %s; ask again, with a longer --timeout", a.address, a.Timeout), Retry: query.Here, Cause: err}
	}
	if cause := (*url.Error)(nil); errors.As(err, &cause) {
		err = cause.Err
	}
	if untrusted := (*tls.CertificateVerificationError)(nil); errors.As(err, &untrusted) {
		return &AskError{Detail: fmt.Sprintf("the certificate of %s is not trusted: %v; give its authority with --ca, and --addr a name that it is for", a.address, untrusted.Err), Retry: query.Never, Cause: err}
	}
	if a.named != "" {
		return &AskError{Detail: fmt.Sprintf("%s, which is the owner for %s, cannot be asked: %v; ask again: if it is gone, another takes its partitions over after the session time-out",
			a.address, a.named, err), Retry: query.Rediscover, Cause: err}
	}
	return &AskError{Detail: fmt.Sprintf("%s cannot be asked: %v; start a node there, or name another with --addr", a.address, err), Retry: query.Elsewhere, Cause: err}
}

// retryOf finds a class by its word; one of a newer release is taken for never.
func retryOf(word string) query.RetryClass {
	for c := query.Here; c < query.Never; c++ {
		if c.String() == word {
			return c
		}
	}
	return query.Never
}
