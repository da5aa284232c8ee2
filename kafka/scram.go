package kafka

import (
	"bytes"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"
)

// scram is one exchange of SCRAM (RFC 5802, RFC 7677) without channel binding: two messages each way, after which each side
// has proved to the other that it knows the password, and neither has sent it. The password is taken as the bytes that it
// is, as Kafka's own client does; the RFC's SASLprep would change only passwords outside ASCII.
//
// Its errors never hold what the other side sent: a broker that is not one could have been fed the password by mistake.
type scram struct {
	hash     func() hash.Hash
	password string
	bare     string // the first message without its header
	nonce    string
	steps    int
	// server is what the broker must prove at the end.
	server []byte
}

// scramHeader says that there is no channel binding and no other identity.
const scramHeader = "n,,"

const (
	// scramLeast is the lowest iteration count that Kafka lets a user have. A lower one would come from somebody who wants to
	// guess the password from the proof.
	scramLeast = 4096
	// scramMost keeps a broker from having this process compute for ever.
	scramMost = 1 << 22
)

var scramEscape = strings.NewReplacer("=", "=3D", ",", "=2C")

// Begin implements sarama.SCRAMClient.
func (s *scram) Begin(user, password, _ string) error {
	s.password, s.nonce = password, rand.Text()
	s.bare = "n=" + scramEscape.Replace(user) + ",r=" + s.nonce
	return nil
}

// Step implements sarama.SCRAMClient.
func (s *scram) Step(challenge string) (string, error) {
	s.steps++
	switch s.steps {
	case 1:
		return scramHeader + s.bare, nil
	case 2:
		return s.prove(challenge)
	case 3:
		return "", s.verify(challenge)
	}
	return "", errors.New("scram: a message after the last one")
}

// Done implements sarama.SCRAMClient.
func (s *scram) Done() bool { return s.steps >= 3 }

// prove answers the broker's salt with the proof that only the password gives.
func (s *scram) prove(first string) (string, error) {
	fields := scramFields(first)
	nonce, salt64, count := fields["r"], fields["s"], fields["i"]
	if !strings.HasPrefix(nonce, s.nonce) || len(nonce) == len(s.nonce) {
		return "", errors.New("scram: the broker's nonce does not extend this client's")
	}
	salt, err := base64.StdEncoding.DecodeString(salt64)
	if err != nil || len(salt) == 0 {
		return "", errors.New("scram: the broker's salt is not base64")
	}
	iterations, err := strconv.Atoi(count)
	if err != nil || iterations < scramLeast || iterations > scramMost {
		return "", fmt.Errorf("scram: the broker asks for an iteration count outside %d to %d", scramLeast, scramMost)
	}
	salted, err := pbkdf2.Key(s.hash, s.password, salt, iterations, s.hash().Size())
	if err != nil {
		return "", errors.New("scram: the key cannot be derived")
	}
	final := "c=" + base64.StdEncoding.EncodeToString([]byte(scramHeader)) + ",r=" + nonce
	auth := s.bare + "," + first + "," + final
	client := s.mac(salted, "Client Key")
	h := s.hash()
	h.Write(client)
	proof := s.mac(h.Sum(nil), auth)
	for i := range proof {
		proof[i] ^= client[i]
	}
	s.server = s.mac(s.mac(salted, "Server Key"), auth)
	return final + ",p=" + base64.StdEncoding.EncodeToString(proof), nil
}

// verify checks that the broker knows the password too.
func (s *scram) verify(final string) error {
	fields := scramFields(final)
	if _, refused := fields["e"]; refused {
		return errors.New("scram: the broker refused the proof")
	}
	signature, err := base64.StdEncoding.DecodeString(fields["v"])
	if err != nil || !hmac.Equal(signature, s.server) || bytes.Equal(s.server, nil) {
		return errors.New("scram: the broker does not know the password: it is not who it says")
	}
	return nil
}

func (s *scram) mac(key []byte, text string) []byte {
	m := hmac.New(s.hash, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func scramFields(message string) map[string]string {
	fields := map[string]string{}
	for part := range strings.SplitSeq(message, ",") {
		if name, value, ok := strings.Cut(part, "="); ok {
			fields[name] = value
		}
	}
	return fields
}
