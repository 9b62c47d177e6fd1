package example.acker;

import java.net.InetAddress;
import java.net.UnknownHostException;
import java.net.http.HttpClient;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.function.BiConsumer;

/**
 * The client of the acker at one address, for one topology. Close it before the program ends: acks
 * wait.
 */
public final class Acker implements AutoCloseable {
  private static final String DEFAULT_URL = "http://127.0.0.1:8700";

  /**
   * Tells this process from one in another container with its host name and process id: each reads
   * its own.
   */
  private static final String PROCESS =
      String.format("-%d-%08x", ProcessHandle.current().pid(), Ids.drawInt());

  private final Session session;
  private final Submitter submitter;
  private final Map<String, SpoutTask> tasks = new HashMap<>(); // with its lock

  private Acker(String url, Settings settings) {
    session = new Session(settings, new Transport(url, settings));
    submitter = new Submitter(session);
  }

  /**
   * Returns a client of the acker at an address, such as http://127.0.0.1:8700; it sends nothing.
   */
  public static Acker at(String url) {
    return builder(url).build();
  }

  /** Returns a builder of a client of the acker at an address. */
  public static Builder builder(String url) {
    return new Builder(url);
  }

  /**
   * Returns a builder with ACKER_URL (http://127.0.0.1:8700 without it), ACKER_TOPOLOGY and
   * ACKER_API_KEY.
   */
  public static Builder fromEnv() {
    Builder builder =
        new Builder(Objects.requireNonNullElse(environment("ACKER_URL"), DEFAULT_URL));
    if (environment("ACKER_TOPOLOGY") != null) {
      builder.topology(environment("ACKER_TOPOLOGY"));
    }
    return builder.apiKey(environment("ACKER_API_KEY"));
  }

  private static String environment(String name) {
    String value = System.getenv(name);
    return value == null || value.isEmpty() ? null : value;
  }

  /** The options of a client. */
  public static final class Builder {
    private final String url;
    private String topology = "default";
    private String apiKey;
    private Duration retryTimeout = Duration.ofSeconds(60);
    private Duration emitTimeout = Duration.ofSeconds(30);
    private Duration requestTimeout = Duration.ofSeconds(10);
    private Duration startupTimeout = Duration.ofSeconds(5);
    private Duration linger = Duration.ofMillis(5);
    private int batchSize = 1_000;
    private int bufferSize = 10_000;
    private OnFull onFull = OnFull.BLOCK;
    private BiConsumer<Tuple, String> onDrop;
    private System.Logger logger = System.getLogger("example.acker");
    private HttpClient httpClient;

    private Builder(String url) {
      this.url = url;
    }

    /** Sets the topology; "default" without it. */
    public Builder topology(String name) {
      topology = name;
      return this;
    }

    /** Sets what is sent as a bearer token; null for none. */
    public Builder apiKey(String key) {
      apiKey = key;
      return this;
    }

    /**
     * Sets how long acks wait, or until the batch is full, to be sent together; zero: each by
     * itself, and ack returns when it was answered. 5 ms without it.
     */
    public Builder linger(Duration value) {
      linger = value;
      return this;
    }

    /** Sets how many acks do not wait any more; 1,000 without it. */
    public Builder batchSize(int operations) {
      batchSize = operations;
      return this;
    }

    /** Sets how many operations may be in flight; 10,000 without it. */
    public Builder bufferSize(int operations) {
      bufferSize = operations;
      return this;
    }

    /** Sets what an ack does when the buffer is full; it waits without it. */
    public Builder onFull(OnFull value) {
      onFull = value;
      return this;
    }

    /**
     * Sets for how long a request that fails is sent again, at most half the time for which the
     * acker remembers keys; 60 s without it.
     */
    public Builder retryTimeout(Duration timeout) {
      retryTimeout = timeout;
      return this;
    }

    /**
     * Sets for how long a refused init is sent again, and an emit waits for a free place; 30 s
     * without it.
     */
    public Builder emitTimeout(Duration timeout) {
      emitTimeout = timeout;
      return this;
    }

    /** Sets the time limit of one attempt of a request; 10 s without it. */
    public Builder requestTimeout(Duration timeout) {
      requestTimeout = timeout;
      return this;
    }

    /**
     * Sets for how long a request is sent again while no server listens and none ever answered;
     * null: as any other. 5 s without it.
     */
    public Builder startupTimeout(Duration timeout) {
      startupTimeout = timeout;
      return this;
    }

    /**
     * Sets what is called with a tuple that {@link DropTuple} ended, and its reason; a warning
     * without it.
     */
    public Builder onDrop(BiConsumer<Tuple, String> call) {
      onDrop = call;
      return this;
    }

    /** Sets where warnings go; the logger "example.acker" of the platform without it. */
    public Builder logger(System.Logger value) {
      logger = Objects.requireNonNull(value);
      return this;
    }

    /** Sets what sends requests. It follows no redirects: the acker gives none. */
    public Builder httpClient(HttpClient value) {
      httpClient = value;
      return this;
    }

    /**
     * Makes the client; it sends nothing.
     *
     * @throws AckerException.Usage for an option or address that cannot be
     */
    public Acker build() {
      return new Acker(
          url,
          new Settings(
              topology,
              apiKey,
              retryTimeout,
              emitTimeout,
              requestTimeout,
              startupTimeout,
              linger,
              batchSize,
              bufferSize,
              onFull,
              onDrop,
              logger,
              httpClient));
    }
  }

  /** Returns the name of the topology. */
  public String topology() {
    return session.topology();
  }

  /**
   * Returns a spout task of this process alone; the acker removes it some time after the process
   * has ended.
   */
  public Spout spout(String name) {
    Checks.name("the spout's name", name);
    String readable = (name + "-" + hostName()).replaceAll("[^A-Za-z0-9._-]", "-");
    int most = Math.min(readable.length(), Checks.MAX_NAME_LENGTH - PROCESS.length());
    return spout(readable.substring(0, most) + PROCESS, true);
  }

  /**
   * Returns the spout task of exactly this name, which many processes may use while one of them
   * reads.
   */
  public Spout sharedSpout(String name) {
    return spout(Checks.name("the spout's name", name), false);
  }

  private synchronized Spout spout(String name, boolean own) {
    return new Spout(
        tasks.computeIfAbsent(name, each -> new SpoutTask(session, each, own)), submitter);
  }

  private static String hostName() {
    try {
      return InetAddress.getLocalHost().getHostName();
    } catch (UnknownHostException e) {
      return "host"; // the process is told by the rest
    }
  }

  /**
   * Returns the tuple of a received message, which has to be acked or failed; without the header it
   * is not tracked, and its acks do nothing.
   *
   * @throws AckerException.InvalidHeader for a header that cannot be read, or is of another
   *     topology: refuse the message
   */
  public Tuple receive(Carrier headers, ReceiveOptions options) {
    List<Anchor> anchors = Anchors.read(headers, topology());
    if (anchors.isEmpty()) {
      submitter.untracked.incrementAndGet();
    }
    return new Tuple(submitter, options.component(), anchors, options.repeatable());
  }

  /** Returns the tuple of a received message for the bolt of this name. */
  public Tuple receive(Carrier headers, String component) {
    return receive(headers, ReceiveOptions.of(component));
  }

  /**
   * Returns the tuple of a received message, whose headers are a map of texts, bytes or lists of
   * these.
   */
  public Tuple receive(Map<String, ?> headers, String component) {
    return receive(Carrier.reading(headers), component);
  }

  /**
   * Runs a bolt's function with the tuple of a received message, which is current meanwhile, and
   * acks it when the function has returned.
   *
   * <p>If the function throws, the tuple is failed with the words of the exception, or left open as
   * the options say, and the exception leaves process; {@link FailTuple} and {@link DropTuple} end
   * the tuple, and process returns. If the thread was interrupted meanwhile, an exception sends
   * nothing: the message comes again.
   *
   * @throws AckerException.InvalidHeader for a header that cannot be read, or is of another
   *     topology: refuse the message
   */
  public <E extends Exception> void process(
      Carrier headers, ReceiveOptions options, Work<? super Tuple, E> run) throws E {
    Interrupts.refuse("a tuple was to be received");
    submitter.process(receive(headers, options), run, options.onError());
  }

  /** Runs the function of the bolt of this name. */
  public <E extends Exception> void process(
      Carrier headers, String component, Work<? super Tuple, E> run) throws E {
    process(headers, ReceiveOptions.of(component), run);
  }

  /**
   * Runs the function of the bolt of this name; the headers are a map of texts, bytes or lists of
   * these.
   */
  public <E extends Exception> void process(
      Map<String, ?> headers, String component, Work<? super Tuple, E> run) throws E {
    process(Carrier.reading(headers), component, run);
  }

  /**
   * Anchors one child to all these tuples, an edge in each tree; the key may be null.
   *
   * @throws AckerException.DuplicateKey or TooManyAnchors or TupleClosed; then no tuple has a new
   *     child
   */
  public Anchors anchor(List<Tuple> tuples, String key) {
    if (tuples.isEmpty()) {
      throw new AckerException.Usage("a child is anchored to one tuple or more");
    }
    return Tuple.join(tuples, key);
  }

  Submitter submitter() {
    return submitter;
  }

  /** Returns what this client has counted. */
  public Stats stats() {
    Flusher.Counts counts = submitter.flusher.counts();
    return new Stats(
        counts.inFlight(), counts.lost(), submitter.dropped.get(), submitter.untracked.get());
  }

  /**
   * Sends what is buffered, and returns when all of it is answered.
   *
   * @throws AckerException.OperationsLost for what could not be delivered
   */
  public void flush() {
    submitter.flusher.flush();
  }

  /**
   * Flushes, and refuses further requests. An ack that waits for space then throws {@link
   * AckerException.ClientClosed}, and its tuple is unchanged. If the thread is interrupted first,
   * what was not answered is given up.
   *
   * @throws AckerException.OperationsLost for what could not be delivered
   */
  @Override
  public void close() {
    submitter.flusher.close();
    try {
      flush();
    } finally {
      session.close();
    }
  }
}
