package acker

import (
	"context"
	"time"
)

// Parent is what children are anchored to: a *Tuple or a *Root.
type Parent interface {
	// Anchor anchors a child.
	Anchor(options ...ChildOption) (Anchors, error)
	// Tracked reports whether its children have anchors.
	Tracked() bool
}

type currentKey struct{}

// Use returns a context in which this tuple or root is current; nil: none is.
func Use(ctx context.Context, parent Parent) context.Context {
	return context.WithValue(ctx, currentKey{}, parent)
}

// Current returns the current tuple or root of a context, nil without one.
func Current(ctx context.Context) Parent {
	found, _ := ctx.Value(currentKey{}).(Parent)
	return found
}

// InjectOption is one of Inject: Signed, or one of the child, such as WithKey.
type InjectOption interface{ inject(*injection) }

type injection struct {
	child   []ChildOption
	secrets []string
}

func (o ChildOption) inject(i *injection) { i.child = append(i.child, o) }

type signed string

func (s signed) inject(i *injection) { i.secrets = []string{string(s)} }

// Signed signs the anchors of an HTTP request, for a bolt that asks for proof: see WithProof.
func Signed(secret string) InjectOption { return signed(secret) }

// Inject anchors a child to the current tuple or root of a context, and sets its header on a message.
//
// It does nothing without a current one, or where the message has anchors already.
func Inject(ctx context.Context, headers Carrier, options ...InjectOption) error {
	var own injection
	for _, option := range options {
		option.inject(&own)
	}
	parent := Current(ctx)
	if parent == nil || len(headerValues(headers, AnchorsHeader)) > 0 {
		return nil
	}
	if own.secrets != nil {
		if err := checkSecrets(own.secrets); err != nil {
			return err
		}
	}
	child, err := parent.Anchor(own.child...)
	if err != nil || child.Len() == 0 {
		return err
	}
	child.SetOn(headers)
	headers.Delete(SignatureHeader)
	if own.secrets != nil {
		headers.Set(SignatureHeader, writeSignature(own.secrets, child.Header(), time.Now()))
	}
	return nil
}
