package kafka

import (
	"crypto/sha256"
	"strings"
	"testing"
)

// The example of RFC 7677: user "user", password "pencil".
const (
	rfcFirst  = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
	rfcProof  = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
	rfcServer = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
)

func rfcExchange(t *testing.T) *scram {
	s := &scram{hash: sha256.New}
	if err := s.Begin("user", "pencil", ""); err != nil {
		t.Fatal(err)
	}
	s.nonce, s.bare = "rOprNGfwEbeRWgbNEkqO", "n=user,r=rOprNGfwEbeRWgbNEkqO"
	if first, err := s.Step(""); err != nil || first != "n,,n=user,r=rOprNGfwEbeRWgbNEkqO" {
		t.Fatal(first, err)
	}
	return s
}

func TestScramGivesTheProofOfTheRFC(t *testing.T) {
	s := rfcExchange(t)
	if proof, err := s.Step(rfcFirst); err != nil || proof != rfcProof {
		t.Fatal(proof, err)
	}
	if s.Done() {
		t.Fatal("done before the broker has proved anything")
	}
	if _, err := s.Step(rfcServer); err != nil || !s.Done() {
		t.Fatal(err)
	}
}

func TestScramRefusesAFalseBroker(t *testing.T) {
	for what, messages := range map[string][]string{
		"another nonce":        {strings.Replace(rfcFirst, "r=rO", "r=xx", 1)},
		"nothing added to it":  {"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"},
		"few iterations":       {strings.Replace(rfcFirst, "4096", "1", 1)},
		"endless iterations":   {strings.Replace(rfcFirst, "4096", "2000000000", 1)},
		"a salt that is none":  {strings.Replace(rfcFirst, "W22Z", "!!!!", 1)},
		"nothing":              {""},
		"another password":     {rfcFirst, strings.Replace(rfcServer, "6rri", "AAAA", 1)},
		"an error":             {rfcFirst, "e=invalid-proof"},
		"no proof":             {rfcFirst, ""},
		"a proof before a key": {"v="},
	} {
		s := rfcExchange(t)
		var err error
		for _, m := range messages {
			if _, err = s.Step(m); err != nil {
				break
			}
		}
		if err == nil || strings.Contains(err.Error(), "pencil") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestScramEscapesNames(t *testing.T) {
	s := &scram{hash: sha256.New}
	if err := s.Begin("a=b,c", "p", ""); err != nil || !strings.HasPrefix(s.bare, "n=a=3Db=2Cc,r=") {
		t.Fatal(s.bare, err)
	}
}
