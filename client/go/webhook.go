package acker

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
)

const (
	webhookPrefix    = "whsec_"
	minWebhookSecret = 24
	maxWebhookSecret = 64
	webhookTolerance = 300 * time.Second
	// maxWebhookBody is more than 500 completions with the longest message ids and reasons take, as many as an acker sends
	// at once.
	maxWebhookBody = 8 << 20
	// webhookTimeout is less than the acker waits for a response (30 s).
	webhookTimeout = 20 * time.Second
)

// signaturesForm has signatures of which one at least is the base64 of 32 bytes.
var signaturesForm = regexp.MustCompile(`^(?:.* )?v1,[A-Za-z0-9+/]{43}=(?: .*)?$`)

// WebhookOption is one of WebhookHandler.
type WebhookOption func(*webhookHandler)

// WithHandlingTimeout sets after how long completions that are not handled are asked for again; 20 s without it.
func WithHandlingTimeout(timeout time.Duration) WebhookOption {
	return func(w *webhookHandler) { w.timeout = timeout }
}

// WithWebhookLogger sets where errors of the function go; slog.Default() without it.
func WithWebhookLogger(logger *slog.Logger) WebhookOption {
	return func(w *webhookHandler) { w.logger = logger }
}

// WebhookHandler receives the completions of a spout task, signed as Standard Webhooks has it: give it to a mux.
//
//	handler, err := acker.WebhookHandler([]string{secret}, func(ctx context.Context, c acker.Completion) error { … })
//	mux.Handle("POST /completions", handler)
//
// A secret is "whsec_" and the padded base64 of 24 to 64 bytes; there are several while it is changed. handle is called
// with one completion after the other; one for which it returned an error or panicked is asked for again. It may get
// the same Completion.ID twice. A request whose head shows that nobody signed it, or that it is too long, is refused
// before its body is read. WebhookHandler returns ErrUsage for what is no secret.
func WebhookHandler(
	secrets []string, handle func(ctx context.Context, completion Completion) error, options ...WebhookOption,
) (http.Handler, error) {
	keys, err := readWebhookSecrets(secrets)
	if err != nil {
		return nil, err
	}
	if handle == nil {
		return nil, usageKind.newError("a receiver of webhooks needs a function for completions")
	}
	made := &webhookHandler{keys: keys, handle: handle, timeout: webhookTimeout, logger: slog.Default()}
	for _, option := range options {
		option(made)
	}
	return made, nil
}

// VerifyWebhook accepts the body of a request that was signed with one of the secrets within five minutes.
//
// It returns an ErrService with the code unauthorized, and ErrUsage for what is no secret. Signatures are compared in
// constant time, each with each; those of other versions are ignored.
func VerifyWebhook(secrets []string, header http.Header, body []byte) error {
	keys, err := readWebhookSecrets(secrets)
	if err != nil {
		return err
	}
	return verifyWebhook(keys, header, body, time.Now())
}

// ParseWebhook reads the completions in the body of a webhook. It returns an ErrService with status 400.
func ParseWebhook(body []byte) ([]Completion, error) {
	var found struct {
		Type string `json:"type"`
		Data struct {
			Completions *[]completionDocument `json:"completions"`
		} `json:"data"`
	}
	err := json.Unmarshal(body, &found)
	if err == nil && found.Type != "completion.batch" && found.Type != "completion.test" {
		err = errors.New("it is no completion.batch")
	}
	var completions []Completion
	if err == nil {
		completions, err = readCompletionList(found.Data.Completions)
	}
	if err != nil {
		invalid := newServiceError("invalid", "the body holds no completions: %v", err)
		invalid.Status = http.StatusBadRequest
		return nil, invalid
	}
	return completions, nil
}

type webhookHandler struct {
	keys    [][]byte
	handle  func(context.Context, Completion) error
	timeout time.Duration
	logger  *slog.Logger
}

func (w *webhookHandler) ServeHTTP(response http.ResponseWriter, asked *http.Request) {
	again, err := w.receive(response, asked)
	var refused *Error
	if errors.As(err, &refused) {
		if refused.Status == http.StatusMethodNotAllowed {
			response.Header().Set("Allow", http.MethodPost)
		}
		answerJSON(response, refused.Status, "application/problem+json", refused.problemDocument())
		return
	}
	if err != nil {
		panic(http.ErrAbortHandler) // the body broke off: there is nobody to answer
	}
	written, _ := json.Marshal(map[string][]string{"retry": again}) // texts
	answerJSON(response, http.StatusOK, "application/json", written)
}

// receive verifies, reads and handles a request, and returns the ids of the completions to send again.
func (w *webhookHandler) receive(response http.ResponseWriter, asked *http.Request) ([]string, error) {
	if err := checkHead(asked); err != nil {
		response.Header().Set("Connection", "close") // else net/http reads the body before it answers
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(response, asked.Body, maxWebhookBody))
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, webhookTooLarge()
	}
	if err != nil {
		return nil, err
	}
	if err := verifyWebhook(w.keys, asked.Header, body, time.Now()); err != nil {
		return nil, err
	}
	completions, err := ParseWebhook(body)
	if err != nil {
		return nil, err
	}
	return w.handleAll(asked.Context(), completions), nil
}

// checkHead refuses by its head a request that nobody signed, or that is too long: anybody could have it read a long
// body.
func checkHead(asked *http.Request) error {
	if asked.Method != http.MethodPost {
		return newServiceError("method_not_allowed", "completions come by POST")
	}
	if err := verifyWebhookHeaders(asked.Header, time.Now()); err != nil {
		return err
	}
	if asked.ContentLength > maxWebhookBody {
		return webhookTooLarge()
	}
	return nil
}

func webhookTooLarge() error {
	return newServiceError("too_large", "the body has more than %d bytes", maxWebhookBody)
}

func (w *webhookHandler) handleAll(ctx context.Context, completions []Completion) []string {
	until := time.Now().Add(w.timeout)
	again := []string{}
	for _, each := range completions {
		if !time.Now().Before(until) || !w.handled(ctx, each) {
			again = append(again, each.ID)
		}
	}
	return again
}

// handled reports whether the function took a completion.
func (w *webhookHandler) handled(ctx context.Context, completion Completion) (isHandled bool) {
	defer func() {
		if thrown := recover(); thrown != nil {
			w.logger.ErrorContext(ctx, "acker: a completion was not handled", "id", completion.ID, "panic", thrown)
		}
	}()
	if err := w.handle(ctx, completion); err != nil {
		w.logger.ErrorContext(ctx, "acker: a completion was not handled", "id", completion.ID, "error", err)
		return false
	}
	return true
}

func answerJSON(response http.ResponseWriter, status int, contentType string, document []byte) {
	response.Header().Set("Content-Type", contentType)
	response.WriteHeader(status)
	_, _ = response.Write(document) // the caller has gone: it asks again
}

func verifyWebhook(keys [][]byte, header http.Header, body []byte, now time.Time) error {
	if err := verifyWebhookHeaders(header, now); err != nil {
		return err
	}
	signed := joined(header, "Webhook-Id") + "." + joined(header, "Webhook-Timestamp") + "."
	fits := false
	for _, key := range keys {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(signed))
		mac.Write(body)
		expected := []byte("v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
		for given := range strings.SplitSeq(joined(header, "Webhook-Signature"), " ") {
			fits = hmac.Equal(expected, []byte(given)) || fits
		}
	}
	if !fits {
		return noSignatureFits()
	}
	return nil
}

// verifyWebhookHeaders checks as much of a signature as can be checked without the body.
func verifyWebhookHeaders(header http.Header, now time.Time) error {
	messageID, timestamp := joined(header, "Webhook-Id"), joined(header, "Webhook-Timestamp")
	signatures := joined(header, "Webhook-Signature")
	if messageID == "" || timestamp == "" || signatures == "" {
		return newServiceError("unauthorized", "webhook-id, webhook-timestamp and webhook-signature are needed")
	}
	if !isDigits(timestamp) {
		return newServiceError("unauthorized", "webhook-timestamp must be in Unix seconds")
	}
	seconds, _ := strconv.ParseInt(timestamp, 10, 64) // of at most 12 digits
	if now.Sub(time.Unix(seconds, 0)).Abs() > webhookTolerance {
		return newServiceError("unauthorized", "webhook-timestamp is more than %v from now", webhookTolerance)
	}
	if !signaturesForm.MatchString(signatures) {
		return noSignatureFits()
	}
	return nil
}

func noSignatureFits() error {
	return newServiceError("unauthorized", "webhook-signature holds none that fits")
}

// joined returns a header that is given several times as one, which fits nothing then.
func joined(header http.Header, name string) string { return strings.Join(header.Values(name), ",") }

func isDigits(text string) bool {
	for at := range len(text) {
		if text[at] < '0' || text[at] > '9' {
			return false
		}
	}
	return len(text) > 0 && len(text) <= 12
}

// readWebhookSecrets returns the bytes of each secret; its error does not show them.
func readWebhookSecrets(secrets []string) ([][]byte, error) {
	var keys [][]byte
	for _, each := range secrets {
		encoded, isMarked := strings.CutPrefix(each, webhookPrefix)
		key, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if isMarked && err == nil && len(key) >= minWebhookSecret && len(key) <= maxWebhookSecret &&
			!strings.ContainsAny(encoded, "\r\n") { // which the decoder ignores
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 || len(keys) < len(secrets) {
		return nil, usageKind.newError("the secret of a webhook must be %s and the base64 of %d to %d bytes, "+
			"padded with = to a multiple of four characters", webhookPrefix, minWebhookSecret, maxWebhookSecret)
	}
	return keys, nil
}
