package acker

import (
	"regexp"
	"time"
	"unicode/utf8"
)

const (
	maxNameLength     = 128
	maxMessageIDBytes = 1024
	minTimeout        = 100 * time.Millisecond
	maxTimeout        = 7 * 24 * time.Hour
)

var traceparentForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// isName reports whether text is a name of the contract.
func isName(text string) bool {
	if text == "" || len(text) > maxNameLength {
		return false
	}
	for at := range len(text) {
		letter := text[at]
		switch {
		case letter >= 'a' && letter <= 'z', letter >= 'A' && letter <= 'Z', letter >= '0' && letter <= '9':
		case at > 0 && (letter == '.' || letter == '_' || letter == '-'):
		default:
			return false
		}
	}
	return true
}

// checkName refuses what is no name of the contract.
func checkName(what, text string) error {
	if isName(text) {
		return nil
	}
	return usageKind.newError(
		"%s must be a name: a letter or digit, then up to 127 letters, digits, dots, dashes, underscores; not %s",
		what, shown(text),
	)
}

// checkText refuses text that is not of UTF-8.
func checkText(what, text string) error {
	if utf8.ValidString(text) {
		return nil
	}
	return usageKind.newError("%s must be valid UTF-8, not %s", what, shown(text))
}

// checkMessageID refuses what cannot be a spout's own id of a message.
func checkMessageID(text string) error {
	if len(text) > maxMessageIDBytes {
		return usageKind.newError("the message id must be at most %d bytes of UTF-8, not %d", maxMessageIDBytes, len(text))
	}
	return checkText("the message id", text)
}

// checkTraceparent refuses what is no W3C traceparent of version 00.
func checkTraceparent(text string) error {
	found := traceparentForm.FindStringSubmatch(text)
	if found == nil || isZeros(found[1]) || isZeros(found[2]) {
		return usageKind.newError("the traceparent must be that of W3C, of version 00, not %s", shown(text))
	}
	return nil
}

// checkEndOn refuses what is no end of a root; empty is none.
func checkEndOn(endOn EndOn) error {
	if endOn == "" || endOn == FirstFail || endOn == AllEnded {
		return nil
	}
	return usageKind.newError("what ends a root must be FirstFail or AllEnded, not %s", shown(string(endOn)))
}

// checkTimeout refuses a timeout of a root beyond the contract.
func checkTimeout(what string, timeout time.Duration) error {
	if timeout < minTimeout || timeout > maxTimeout {
		return usageKind.newError("%s must be from %v to %v, not %v", what, minTimeout, maxTimeout, timeout)
	}
	return nil
}

func isZeros(text string) bool {
	for at := range len(text) {
		if text[at] != '0' {
			return false
		}
	}
	return true
}

// shown quotes text, cut to what fits into a message.
func shown(text string) string {
	const most = 40
	if runes := []rune(text); len(runes) > most {
		return quoted(string(runes[:most]) + "…")
	}
	return quoted(text)
}
