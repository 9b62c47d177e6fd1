package acker

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// SignatureHeader is the name of the header of the proof that anchors come from somebody who has a secret, over HTTP:
// "00 <time> <mac>", a time in Unix seconds and the HMAC-SHA256 of "00 <time> <anchors>" in hex digits, keyed with the
// secret in UTF-8. See docs/public-bolts.md.
const SignatureHeader = "Acker-Anchors-Signature"

const (
	signatureTolerance  = 300 * time.Second
	minSecretCharacters = 16
)

var signatureForm = regexp.MustCompile(`^00 (0|[1-9][0-9]{0,11}) ([0-9a-f]{64})$`)

// Sign signs the anchors of an HTTP request with a secret, in the place of a signature that it has; without anchors it
// removes that. The signature holds for five minutes.
func Sign(headers Carrier, secret string) error {
	secrets := []string{secret}
	if err := checkSecrets(secrets); err != nil {
		return err
	}
	anchors, found, err := headerValue(headers, AnchorsHeader)
	if err != nil {
		return err
	}
	headers.Delete(SignatureHeader)
	if found {
		headers.Set(SignatureHeader, writeSignature(secrets, anchors, time.Now()))
	}
	return nil
}

// Verify checks that a holder of one of the secrets signed the anchors of an HTTP request within five minutes.
//
// Headers without anchors are accepted. It returns ErrInvalidSignature, ErrInvalidHeader, ErrUsage.
func Verify(headers Carrier, secrets ...string) error {
	if err := checkSecrets(secrets); err != nil {
		return err
	}
	return checkSignature(secrets, headers, time.Now())
}

// checkSecrets refuses what is too short; its error does not show them.
func checkSecrets(secrets []string) error {
	isGood := len(secrets) > 0
	for _, each := range secrets {
		isGood = isGood && utf8.RuneCountInString(each) >= minSecretCharacters
	}
	if !isGood {
		return usageKind.newError(
			"a secret must have %d characters at least; draw it, do not invent it", minSecretCharacters,
		)
	}
	return nil
}

// writeSignature returns the signature of the value of the anchors' header, made with the first secret.
func writeSignature(secrets []string, anchors string, now time.Time) string {
	seconds := strconv.FormatInt(now.Unix(), 10)
	return fmt.Sprintf("%s %s %x", headerVersion, seconds, signatureMAC(secrets[0], seconds, anchors))
}

// checkSignature compares MACs in constant time, with each secret.
func checkSignature(secrets []string, headers Carrier, now time.Time) error {
	anchors, found, err := headerValue(headers, AnchorsHeader)
	if err != nil || !found {
		return err
	}
	signatures := headerValues(headers, SignatureHeader)
	if len(signatures) != 1 {
		return invalidSignatureKind.newError(
			"%s needs one %s here, and has %d", AnchorsHeader, SignatureHeader, len(signatures),
		)
	}
	parts := signatureForm.FindStringSubmatch(strings.TrimSpace(signatures[0]))
	if parts == nil {
		return invalidSignatureKind.newError(
			"%s must be %s, a time in Unix seconds and 64 hex digits", SignatureHeader, headerVersion,
		)
	}
	theirs, _ := hex.DecodeString(parts[2]) // the form has hex digits only
	fits := false
	for _, secret := range secrets {
		fits = hmac.Equal(signatureMAC(secret, parts[1], anchors), theirs) || fits
	}
	if !fits {
		return invalidSignatureKind.newError("%s was made with another secret, or for other anchors", SignatureHeader)
	}
	seconds, _ := strconv.ParseInt(parts[1], 10, 64) // the form has at most 12 digits
	if now.Sub(time.Unix(seconds, 0)).Abs() > signatureTolerance {
		return invalidSignatureKind.newError("%s is more than %v from now", SignatureHeader, signatureTolerance)
	}
	return nil
}

func signatureMAC(secret, seconds, anchors string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(headerVersion + " " + seconds + " " + strings.TrimSpace(anchors)))
	return mac.Sum(nil)
}
