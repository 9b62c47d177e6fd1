package acker

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
)

const defaultURL = "http://127.0.0.1:8700"

// process tells this process from one in another container with its host name and process id: each reads its own.
var process = sync.OnceValue(func() string {
	var drawn [4]byte
	_, _ = rand.Read(drawn[:]) // never returns an error
	return fmt.Sprintf("-%d-%x", os.Getpid(), drawn)
})

// Client is that of the acker at one address, for one topology.
type Client struct {
	session   *session
	submitter *submitter

	mutex sync.Mutex
	tasks map[string]*spoutTask
}

// Stats are what a client has counted.
type Stats struct {
	// InFlight are operations that are buffered or being sent now.
	InFlight int
	// Lost are operations that could not be delivered.
	Lost int
	// DroppedTuples are tuples that were acked by a DropTuple.
	DroppedTuples int
	// UntrackedTuples are tuples that came without an anchors header.
	UntrackedTuples int
}

// New makes a client of the acker at an address, such as http://127.0.0.1:8700; it sends nothing.
//
// It returns ErrUsage for an option or address that cannot be.
func New(url string, options ...Option) (*Client, error) {
	s, err := readSettings(options)
	if err != nil {
		return nil, err
	}
	t, err := newTransport(url, s)
	if err != nil {
		return nil, err
	}
	requests := &session{settings: s, transport: t}
	operations := &submitter{session: requests, flusher: newFlusher(requests)}
	return &Client{session: requests, submitter: operations, tasks: make(map[string]*spoutTask)}, nil
}

// FromEnv makes a client of ACKER_URL (http://127.0.0.1:8700 without it), ACKER_TOPOLOGY and ACKER_API_KEY.
func FromEnv(options ...Option) (*Client, error) {
	url := defaultURL
	if found := os.Getenv("ACKER_URL"); found != "" {
		url = found
	}
	var own []Option
	if topology := os.Getenv("ACKER_TOPOLOGY"); topology != "" {
		own = append(own, WithTopology(topology))
	}
	if key := os.Getenv("ACKER_API_KEY"); key != "" {
		own = append(own, WithAPIKey(key))
	}
	return New(url, append(own, options...)...)
}

// Topology returns the name of the topology.
func (c *Client) Topology() string { return c.session.topology }

// Spout returns a spout task of this process alone; the acker removes it some time after the process has ended.
func (c *Client) Spout(name string) (*Spout, error) {
	if err := checkName("the spout's name", name); err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // without one the process is told by the rest
	readable := strings.Map(nameLetter, name+"-"+host)
	readable = readable[:min(len(readable), maxNameLength-len(process()))]
	return c.spout(readable+process(), true), nil
}

// SharedSpout returns the spout task of exactly this name, which many processes may use while one of them reads.
func (c *Client) SharedSpout(name string) (*Spout, error) {
	if err := checkName("the spout's name", name); err != nil {
		return nil, err
	}
	return c.spout(name, false), nil
}

func (c *Client) spout(name string, own bool) *Spout {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	task := c.tasks[name]
	if task == nil {
		task = &spoutTask{session: c.session, name: name, own: own}
		c.tasks[name] = task
	}
	return &Spout{task: task, submitter: c.submitter}
}

func nameLetter(letter rune) rune {
	if letter < 0x80 && isName("a"+string(letter)) {
		return letter
	}
	return '-'
}

// ReceiveOption is one of Client.Receive, Client.Process and Client.Bolt.
type ReceiveOption func(*receipt)

// receipt is how a tuple is received, and its function run.
type receipt struct {
	component  string
	repeatable bool
	onError    OnError
	secrets    []string
	needsProof bool
}

// WithComponent names the bolt. It is needed.
func WithComponent(name string) ReceiveOption { return func(r *receipt) { r.component = name } }

// Repeatable says that a re-run makes the same children in the same order: then children without a key have the same
// edges again.
func Repeatable() ReceiveOption { return func(r *receipt) { r.repeatable = true } }

// WithOnError says what happens to a tuple whose function returns an error; OnErrorFail without it.
func WithOnError(onError OnError) ReceiveOption { return func(r *receipt) { r.onError = onError } }

// WithProof lets a Bolt answer 403 to anchors that nobody signed who has one of these secrets. See Signed and Sign.
func WithProof(secrets ...string) ReceiveOption {
	return func(r *receipt) { r.secrets, r.needsProof = secrets, true }
}

func readReceipt(options []ReceiveOption) (receipt, error) {
	var own receipt
	for _, option := range options {
		option(&own)
	}
	if own.onError != OnErrorFail && own.onError != OnErrorLeaveOpen {
		return own, usageKind.newError(
			"what happens on an error must be OnErrorFail or OnErrorLeaveOpen, not %d", own.onError,
		)
	}
	if own.needsProof {
		if err := checkSecrets(own.secrets); err != nil {
			return own, err
		}
	}
	return own, checkName("the component", own.component)
}

// Receive returns the tuple of a received message, which has to be acked or failed; without the header it is not
// tracked, and its acks do nothing.
//
// It returns ErrInvalidHeader, also for a header of another topology: refuse the message then; ErrUsage; and the error
// of a context that has ended.
func (c *Client) Receive(ctx context.Context, headers Carrier, options ...ReceiveOption) (*Tuple, error) {
	own, err := readReceipt(options)
	if err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, canceledWait(ctx, "a tuple was to be received")
	}
	return c.receive(headers, own)
}

func (c *Client) receive(headers Carrier, own receipt) (*Tuple, error) {
	anchors, err := readAnchors(headers, c.Topology())
	if err != nil {
		return nil, err
	}
	if len(anchors) == 0 {
		c.submitter.untracked.Add(1)
	}
	return &Tuple{
		submitter: c.submitter, topology: c.Topology(), component: own.component, anchors: anchors,
		repeatable: own.repeatable, number: tuplesMade.Add(1),
	}, nil
}

// Process runs a bolt's function with the tuple of a received message, which is current in its context, and acks it
// when the function returns nil.
//
// If it returns an error, the tuple is failed with its words, or left open as WithOnError says, and Process returns the
// error; FailTuple and DropTuple end the tuple, and Process returns nil. A panic fails it, too, and goes on. If the
// context has ended meanwhile, an error sends nothing: the message comes again.
func (c *Client) Process(
	ctx context.Context, headers Carrier, run func(ctx context.Context, tuple *Tuple) error, options ...ReceiveOption,
) error {
	own, err := readReceipt(options)
	if err != nil {
		return err
	}
	tuple, err := c.Receive(ctx, headers, options...)
	if err != nil {
		return err
	}
	return c.submitter.process(ctx, tuple, run, own.onError)
}

// Anchor anchors one child to all these tuples, an edge in each tree. It returns ErrDuplicateKey, ErrTooManyAnchors,
// ErrTupleClosed, and then no tuple has a new child.
func (c *Client) Anchor(tuples []*Tuple, options ...ChildOption) (Anchors, error) {
	if len(tuples) == 0 {
		return Anchors{}, usageKind.newError("a child is anchored to one tuple or more")
	}
	return join(tuples, options)
}

// Stats returns what this client has counted.
func (c *Client) Stats() Stats {
	inFlight, lost := c.submitter.flusher.counts()
	return Stats{
		InFlight: inFlight, Lost: lost,
		DroppedTuples: int(c.submitter.dropped.Load()), UntrackedTuples: int(c.submitter.untracked.Load()),
	}
}

// Flush sends what is buffered, and returns when all of it is answered. It returns ErrOperationsLost.
func (c *Client) Flush(ctx context.Context) error { return c.submitter.flusher.flush(ctx) }

// Close flushes, and closes the connections. It returns ErrOperationsLost. If the context ends first, what was not
// answered is given up. An ack that waits for space then returns ErrClientClosed, and its tuple is unchanged.
func (c *Client) Close(ctx context.Context) error {
	c.submitter.flusher.close()
	defer c.session.transport.close()
	return c.Flush(ctx)
}
