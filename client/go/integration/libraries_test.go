package integration

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"acker.example/acker"
	amqp "github.com/rabbitmq/amqp091-go"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	value  = "00 default 00000000000000a1-00000000000000b1"
	secret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	batch  = `{"type":"completion.batch","data":{"completions":[` +
		`{"id":"c1","root_id":"00000000000000a1","outcome":"acked","message_id":"1","reason":null,"component":null,` +
		`"complete_latency_ms":5,"at_ms":1790000000000},` +
		`{"id":"c2","root_id":"00000000000000a2","outcome":"timed_out","message_id":"2","reason":null,"component":null,` +
		`"complete_latency_ms":5,"at_ms":1790000000000}]}}`
)

func TestAmqp091HeadersAreReadAndWritten(t *testing.T) {
	delivery := amqp.Delivery{Headers: amqp.Table{"acker-anchors": value, "x-death": []any{amqp.Table{"count": int64(1)}}}}
	publishing := amqp.Publishing{Headers: amqp.Table{"acker-anchors": "stale", "trace": "1"}}
	readAndWrite(t, acker.AMQP(delivery.Headers), acker.AMQP(publishing.Headers))
	if len(publishing.Headers) != 2 || publishing.Headers[acker.AnchorsHeader] != value || publishing.Headers.Validate() != nil {
		t.Fatalf("the headers are %v", publishing.Headers)
	}
}

func TestFranzGoHeadersAreReadAndWritten(t *testing.T) {
	read := kgo.Record{Headers: []kgo.RecordHeader{{Key: "acker-anchors", Value: []byte(value)}}}
	sent := kgo.Record{Headers: slices.Clone(read.Headers)}
	readAndWrite(t, acker.Kafka(&read.Headers), acker.Kafka(&sent.Headers))
	if len(sent.Headers) != 1 || sent.Headers[0].Key != acker.AnchorsHeader || string(sent.Headers[0].Value) != value {
		t.Fatalf("the headers are %v", sent.Headers)
	}
}

// readAndWrite reads the anchors of a message, and sets them on another.
func readAndWrite(t *testing.T, from, to acker.Carrier) {
	t.Helper()
	anchors, found, err := acker.Extract(from)
	if err != nil || !found {
		t.Fatal(found, err)
	}
	anchors.SetOn(to)
}

func TestTheVerifierAcceptsWhatTheLibraryOfStandardWebhooksDoesAndTheOtherWayRound(t *testing.T) {
	library, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	header := signed(t, library)
	if err := acker.VerifyWebhook([]string{secret}, header, []byte(batch)); err != nil {
		t.Error(err)
	}
	if err := library.Verify([]byte(batch), header); err != nil {
		t.Error(err)
	}
	header.Set("webhook-id", "msg_2")
	if acker.VerifyWebhook([]string{secret}, header, []byte(batch)) == nil || library.Verify([]byte(batch), header) == nil {
		t.Error("a forged id was accepted")
	}
}

func TestAHandlerReceivesWhatTheLibraryHasSignedAndRefusesAllElse(t *testing.T) {
	library, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	note := func(outcome string) func(context.Context, string) error {
		return func(_ context.Context, messageID string) error {
			seen = append(seen, outcome+" "+messageID)
			return nil
		}
	}
	handler, err := acker.WebhookHandler([]string{secret}, acker.ByOutcome(note("acked"), note("failed")))
	if err != nil {
		t.Fatal(err)
	}
	if status := post(t, handler, signed(t, library), batch); status != http.StatusOK {
		t.Errorf("it answers %d", status)
	}
	if status := post(t, handler, signed(t, library), strings.Replace(batch, "acked", "failed", 1)); status != http.StatusUnauthorized {
		t.Errorf("it answers a forged body %d", status)
	}
	if !slices.Equal(seen, []string{"acked 1", "failed 2"}) {
		t.Errorf("%q were handled", seen)
	}
}

func signed(t *testing.T, library *standardwebhooks.Webhook) http.Header {
	t.Helper()
	now := time.Now()
	signature, err := library.Sign("msg_1", now, []byte(batch))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set("webhook-id", "msg_1")
	header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	header.Set("webhook-signature", signature)
	return header
}

func post(t *testing.T, handler http.Handler, header http.Header, body string) int {
	t.Helper()
	asked := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/completions", strings.NewReader(body))
	asked.Header = header
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, asked)
	return answer.Code
}
