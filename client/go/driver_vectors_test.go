package acker_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"acker.example/acker"
)

// The commands of the vectors.

func (d *driver) hello(command) (any, error) { return object{"language": "go"}, nil }

func (d *driver) readHeader(given command) (any, error) {
	headers, err := carried(given.Carrier, given.RawHeader)
	if err != nil {
		return nil, err
	}
	anchors, found, err := acker.Extract(headers)
	if given.Topology != nil {
		anchors, err = receivedAnchors(headers, *given.Topology)
		found = anchors.Len() > 0
	}
	if err != nil || !found {
		return nil, err
	}
	return object{"topology": anchors.Topology(), "anchors": anchors.Listed()}, nil
}

func receivedAnchors(headers acker.Carrier, topology string) (acker.Anchors, error) {
	client, err := acker.New("http://acker.test", acker.WithTopology(topology))
	if err != nil {
		return acker.Anchors{}, err
	}
	tuple, err := client.Receive(context.Background(), headers, acker.WithComponent("reader"))
	if err != nil {
		return acker.Anchors{}, err
	}
	return tuple.Anchors(), nil
}

// kafkaHeader is as franz-go, confluent-kafka-go and kafka-go have it.
type kafkaHeader struct {
	Key   string
	Value []byte
}

// carried returns headers as a library of the carrier gives them.
func carried(carrier string, given json.RawMessage) (acker.Carrier, error) {
	var pairs [][2]string
	if err := json.Unmarshal(given, &pairs); err != nil {
		return nil, err
	}
	return carrierOf(carrier, pairs), nil
}

func carrierOf(carrier string, pairs [][2]string) acker.Carrier {
	switch carrier {
	case "amqp":
		table := map[string]any{}
		for _, each := range pairs {
			table[each[0]] = each[1]
		}
		return acker.AMQP(table)
	case "kafka":
		var headers []kafkaHeader
		for _, each := range pairs {
			headers = append(headers, kafkaHeader{Key: each[0], Value: []byte(each[1])})
		}
		return acker.Kafka(&headers)
	default:
		header := http.Header{}
		for _, each := range pairs {
			header[each[0]] = append(header[each[0]], each[1])
		}
		return acker.HTTP(header)
	}
}

func (d *driver) writeHeader(given command) (any, error) {
	var listed []string
	if err := json.Unmarshal(given.Anchors, &listed); err != nil {
		return nil, err
	}
	anchors, err := acker.NewAnchors(*given.Topology, listed)
	if err != nil {
		return nil, err
	}
	headers := carrierOf(given.Carrier, given.Others)
	anchors.SetOn(headers)
	pairs := [][2]string{}
	for name, value := range headers.All() {
		pairs = append(pairs, [2]string{name, value})
	}
	return pairs, nil
}

func (d *driver) deriveEdge(given command) (any, error) {
	return acker.DeriveEdge(given.Root, given.Parent, given.Component, *given.Key), nil
}

func (d *driver) deriveFromDigest(given command) (any, error) {
	digest, err := hex.DecodeString(given.Digest)
	return acker.EdgeOfDigest(given.Root, digest), err
}

func (d *driver) verifyWebhook(given command) (any, error) {
	var members map[string]string
	if err := json.Unmarshal(given.RawHeader, &members); err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range members {
		header.Set(name, value)
	}
	err := acker.VerifyWebhookAt(given.Secrets, header, []byte(given.Body), time.Unix(int64(given.Now), 0))
	if err != nil {
		return object{"refused": err.Error()}, nil
	}
	return object{"accepted": true}, nil
}

func (d *driver) signAnchors(given command) (any, error) {
	var anchors string
	err := json.Unmarshal(given.Anchors, &anchors)
	return acker.WriteSignature(*given.Secret, anchors, time.Unix(int64(given.Now), 0)), err
}

func (d *driver) checkSignature(given command) (any, error) {
	headers, err := carried("http", given.RawHeader)
	if err != nil {
		return nil, err
	}
	err = acker.CheckSignature(given.Secrets, headers, time.Unix(int64(given.Now), 0))
	return object{"accepted": true}, err
}

func (d *driver) decide(given command) (any, error) {
	asked, answer := given.Request, given.Answer
	var none error
	if answer == nil {
		answer, none = &decisionAnswer{}, errors.New("no answer")
	}
	found := acker.Decide(asked.Method, asked.Path, asked.Operations, answer.Status, answer.Body, answer.RetryAfter, none)
	if found.Err == nil {
		return object{"again": false}, nil
	}
	return object{"again": found.Again, "wait_ms": found.Wait.Milliseconds(), "error": described(found.Err, "lost")}, nil
}

func (d *driver) backoff(given command) (any, error) {
	var milliseconds []float64
	for _, pause := range acker.Pauses(given.Attempts, given.Jitter) {
		milliseconds = append(milliseconds, float64(pause)/float64(time.Millisecond))
	}
	return milliseconds, nil
}
