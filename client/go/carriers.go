package acker

import (
	"fmt"
	"iter"
	"net/http"
	"strings"
)

// Carrier are the headers of a message: HTTP, Metadata, AMQP and Kafka make one of what a library has.
type Carrier interface {
	// All yields each name with each of its values.
	All() iter.Seq2[string, string]
	// Set adds a header.
	Set(name, value string)
	// Delete removes a header, whose name is in upper or lower case.
	Delete(name string)
}

// HTTP are headers of net/http, and of others that are a map of lists, as those of NATS.
type HTTP http.Header

// All yields each name with each of its values.
func (h HTTP) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for name, values := range h {
			for _, value := range values {
				if !yield(name, value) {
					return
				}
			}
		}
	}
}

// Set adds a header.
func (h HTTP) Set(name, value string) { h[name] = []string{value} }

// Delete removes a header.
func (h HTTP) Delete(name string) {
	for each := range h {
		if strings.EqualFold(each, name) {
			delete(h, each)
		}
	}
}

// Metadata is that of gRPC, whose names are in lower case: acker.Metadata(md).
type Metadata map[string][]string

// All yields each name with each of its values.
func (m Metadata) All() iter.Seq2[string, string] { return HTTP(m).All() }

// Set adds a header, its name in lower case: gRPC sends no other.
func (m Metadata) Set(name, value string) { HTTP(m).Set(strings.ToLower(name), value) }

// Delete removes a header.
func (m Metadata) Delete(name string) { HTTP(m).Delete(name) }

// AMQP are headers of AMQP 0-9-1: acker.AMQP(delivery.Headers) reads those of amqp091-go; to write, give a table that
// is not nil.
type AMQP map[string]any

// All yields each name with its value; lists are several values, and bytes are text.
func (a AMQP) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for name, value := range a {
			values, isList := value.([]any)
			if !isList {
				values = []any{value}
			}
			for _, each := range values {
				if !yield(name, textOf(each)) {
					return
				}
			}
		}
	}
}

// Set adds a header.
func (a AMQP) Set(name, value string) { a[name] = value }

// Delete removes a header.
func (a AMQP) Delete(name string) {
	for each := range a {
		if strings.EqualFold(each, name) {
			delete(a, each)
		}
	}
}

// KafkaHeader is a header as franz-go, confluent-kafka-go and segmentio/kafka-go have it.
type KafkaHeader interface {
	~struct {
		Key   string
		Value []byte
	}
}

// Kafka are headers of a Kafka record: acker.Kafka(&record.Headers), of franz-go, confluent-kafka-go or kafka-go.
func Kafka[H KafkaHeader](headers *[]H) Carrier { return kafka[H]{headers} }

type kafka[H KafkaHeader] struct {
	headers *[]H
}

// pair is the underlying type of every H.
type pair = struct {
	Key   string
	Value []byte
}

func (k kafka[H]) All() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for _, each := range *k.headers {
			if found := pair(each); !yield(found.Key, string(found.Value)) {
				return
			}
		}
	}
}

func (k kafka[H]) Set(name, value string) {
	*k.headers = append(*k.headers, H(pair{Key: name, Value: []byte(value)}))
}

// Delete makes a new list: the record that was read keeps its own.
func (k kafka[H]) Delete(name string) {
	kept := make([]H, 0, len(*k.headers)+1)
	for _, each := range *k.headers {
		if !strings.EqualFold(pair(each).Key, name) {
			kept = append(kept, each)
		}
	}
	*k.headers = kept
}

func textOf(value any) string {
	switch found := value.(type) {
	case string:
		return found
	case []byte:
		return string(found)
	default:
		return fmt.Sprint(value)
	}
}
