package example.acker;

import static example.acker.Memory.NOTHING;
import static example.acker.Memory.emit;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Spouts and bolts, with an acker in memory. */
class AckerTest {
  private static final Duration AT_ONCE = Duration.ZERO;
  private final InMemoryAcker memory = new InMemoryAcker();
  private final InMemoryAcker undeduped =
      new InMemoryAcker(InMemoryAcker.Options.defaults().withoutDedupe());

  @AfterEach
  void noThreadStaysInterrupted() {
    Thread.interrupted();
  }

  private static List<Completion> completed(Acker acker) {
    List<Completion> found = new ArrayList<>();
    ReadOptions once = ReadOptions.defaults().withUntil(Duration.ZERO);
    acker.sharedSpout("orders").completions(once).forEach(found::add);
    return found;
  }

  @Test
  void aTreeCompletes() {
    Memory.Emitted root;
    try (Acker acker = memory.client()) {
      root = emit(acker, "42", "a", "b");
      for (Map<String, String> headers : root.children()) {
        assertEquals(Optional.empty(), memory.outcome(root.rootId()));
        acker.process(headers, "bolt", NOTHING);
      }
    }
    assertEquals(Optional.of(Outcome.ACKED), memory.outcome(root.rootId()));
    assertEquals(List.of("42"), memory.completions("orders"));
  }

  @Test
  void aRootTimesOutWhenItsTimeIsOver() {
    Memory.Emitted root = emit(memory.client(), "42", "a");
    memory.advance(Duration.ofSeconds(29));
    assertEquals(Optional.empty(), memory.outcome(root.rootId()));
    memory.advance(Duration.ofSeconds(2));
    assertEquals(Optional.of(Outcome.TIMED_OUT), memory.outcome(root.rootId()));
  }

  @Test
  void aRootEndsWhenAllHaveEndedAndTellsHowManyFailed() {
    InMemoryAcker own =
        new InMemoryAcker(InMemoryAcker.Options.defaults().withEndOn(EndOn.ALL_ENDED));
    Acker acker = own.builder().linger(AT_ONCE).build();
    Memory.Emitted root = emit(acker, "import", "1", "2", "3");
    Map<String, String> tell = new HashMap<>();
    for (int at = 0; at < 3; at++) {
      boolean fails = at == 1;
      acker.process(
          root.children().get(at),
          "load",
          tuple -> {
            if (fails) {
              tell.putAll(tuple.headers("tell"));
              throw new FailTuple("row 2 has no price");
            }
          });
    }
    assertEquals(Optional.empty(), own.outcome(root.rootId()));
    acker.process(tell, "tell", NOTHING);
    assertEquals(Optional.of(Outcome.FAILED), own.outcome(root.rootId()));
    Completion done = completed(acker).get(0);
    assertEquals(EndOn.ALL_ENDED, done.endOn());
    assertEquals(1, done.failures());
    assertEquals(Optional.of("row 2 has no price"), done.reason());
  }

  @Test
  void anEmitSaysWhatEndsItsRoot() {
    Acker acker = memory.client();
    for (EndOn endOn : EndOn.values()) {
      Memory.Emitted root = emit(acker, "42", EmitOptions.defaults().withEndOn(endOn), "a", "b");
      acker.process(
          root.children().get(0),
          "bolt",
          tuple -> {
            throw new FailTuple("no");
          });
      Optional<Outcome> expected =
          endOn == EndOn.FIRST_FAIL ? Optional.of(Outcome.FAILED) : Optional.empty();
      assertEquals(expected, memory.outcome(root.rootId()));
    }
  }

  @Test
  void aCompletionCountsTheTuplesThatWereDropped() {
    List<String> dropped = new ArrayList<>();
    Acker acker = undeduped.builder().onDrop((tuple, reason) -> dropped.add(reason)).build();
    Memory.Emitted root = emit(acker, "42", "a", "b", "c");
    acker.process(root.children().get(0), "bolt", NOTHING);
    for (Map<String, String> headers : root.children().subList(1, 3)) {
      acker.process(
          headers,
          "bolt",
          tuple -> {
            throw new DropTuple("malformed");
          });
    }
    acker.flush();
    Completion done = completed(acker).get(0);
    assertEquals(Outcome.ACKED, done.outcome());
    assertEquals(2, done.dropped());
    assertEquals(2, acker.stats().droppedTuples());
    assertEquals(List.of("malformed", "malformed"), dropped);
  }

  @Test
  void anAckWhoseAnswerIsLostIsSentAgainWithItsKey() {
    Acker acker = undeduped.builder().linger(AT_ONCE).build();
    Memory.Emitted root = emit(acker, "42", "a", "b");
    undeduped.fail(new InMemoryAcker.Fault.LostAnswer());
    root.children().forEach(headers -> acker.process(headers, "bolt", NOTHING));
    assertEquals(Optional.of(Outcome.ACKED), undeduped.outcome(root.rootId()));
    List<String> keys =
        undeduped.requests().stream()
            .filter(each -> each.path().endsWith("/ack"))
            .map(InMemoryAcker.Received::key)
            .toList();
    assertEquals(3, keys.size());
    assertEquals(2, keys.stream().distinct().count());
  }

  @Test
  void theAcksOfOneRootAreOneOperation() {
    try (Acker acker = undeduped.builder().linger(Duration.ofMinutes(1)).build()) {
      Memory.Emitted root = emit(acker, "42", "a", "b", "c");
      root.children().forEach(headers -> acker.process(headers, "bolt", NOTHING));
      assertEquals(1, acker.stats().inFlight());
    }
    assertEquals(List.of("42"), undeduped.completions("orders"));
  }

  @Test
  void manyThreadsAckOneRoot() throws Exception {
    Acker acker = undeduped.builder().batchSize(7).bufferSize(7).build();
    String[] keys = IntStream.range(0, 100).mapToObj(Integer::toString).toArray(String[]::new);
    Memory.Emitted root = emit(acker, "42", keys);
    ExecutorService threads = Executors.newFixedThreadPool(16);
    List<Future<?>> all = new ArrayList<>();
    root.children()
        .forEach(headers -> all.add(threads.submit(() -> acker.process(headers, "bolt", NOTHING))));
    for (Future<?> each : all) {
      each.get();
    }
    threads.shutdown();
    acker.close();
    assertEquals(Optional.of(Outcome.ACKED), undeduped.outcome(root.rootId()));
  }

  @Test
  void whatAFunctionThrowsLeavesProcessAndFailsTheTree() {
    Acker acker = memory.client();
    for (Throwable thrown :
        List.of(new IOException("out of stock"), new AssertionError("out of stock"))) {
      Memory.Emitted root = emit(acker, "42", "a");
      Throwable caught =
          assertThrows(
              thrown.getClass(),
              () ->
                  acker.process(
                      root.children().get(0),
                      "bolt",
                      tuple -> {
                        if (thrown instanceof Error error) {
                          throw error;
                        }
                        throw (Exception) thrown;
                      }));
      assertSame(thrown, caught);
      assertEquals(Optional.of(Outcome.FAILED), memory.outcome(root.rootId()));
    }
    assertEquals(Optional.of("out of stock"), completed(acker).get(0).reason());
  }

  @Test
  void aFunctionThatIsInterruptedSendsNothing() {
    Acker acker = memory.client();
    Memory.Emitted root = emit(acker, "42", "a");
    assertThrows(
        IOException.class,
        () ->
            acker.process(
                root.children().get(0),
                "bolt",
                tuple -> {
                  Thread.currentThread().interrupt();
                  throw new IOException("stopped");
                }));
    assertEquals(Optional.empty(), memory.outcome(root.rootId()));
  }

  @Test
  void anAckIsSentAlsoIfTheThreadWasInterruptedMeanwhile() {
    Acker acker = memory.builder().linger(AT_ONCE).build();
    Memory.Emitted root = emit(acker, "42", "a");
    acker.process(root.children().get(0), "bolt", tuple -> Thread.currentThread().interrupt());
    assertTrue(Thread.currentThread().isInterrupted());
    assertEquals(Optional.of(Outcome.ACKED), memory.outcome(root.rootId()));
  }

  @Test
  void aCallOfAnInterruptedThreadIsCanceled() {
    Acker acker = memory.client();
    Tuple tuple = acker.receive(emit(acker, "42", "a").children().get(0), "bolt");
    Thread.currentThread().interrupt();
    assertThrows(AckerException.Canceled.class, () -> tuple.fail("late"));
    assertTrue(Thread.interrupted());
  }

  @Test
  void anAckAndAFailOfAnInterruptedThreadLeaveTheirTupleOpen() {
    Acker acker = memory.builder().linger(AT_ONCE).build();
    Memory.Emitted root = emit(acker, "42", "a");
    Tuple tuple = acker.receive(root.children().get(0), "bolt");
    List<Runnable> calls = List.of(tuple::ack, () -> tuple.fail("late"));
    for (Runnable call : calls) {
      Thread.currentThread().interrupt();
      AckerException error = assertThrows(AckerException.Canceled.class, call::run);
      assertFalse(error.outcomeUnknown());
      assertFalse(tuple.closed());
      assertTrue(Thread.interrupted());
    }
    tuple.ack();
    assertEquals(Optional.of(Outcome.ACKED), memory.outcome(root.rootId()));
  }

  @Test
  void aRequestThatIsInterruptedBetweenAttemptsIsCanceledAndItsOutcomeUnknown() {
    Thread own = Thread.currentThread();
    Acker acker =
        memory
            .builder()
            .httpClient(
                Memory.through(
                    memory,
                    asked -> {
                      if (asked.uri().getPath().endsWith("/fail")) {
                        own.interrupt();
                        return false;
                      }
                      return true;
                    }))
            .build();
    Tuple tuple = acker.receive(emit(acker, "42", "a").children().get(0), "bolt");
    AckerException error = assertThrows(AckerException.Canceled.class, () -> tuple.fail("late"));
    assertTrue(error.outcomeUnknown());
    assertTrue(Thread.interrupted());
  }

  @Test
  void errorsAreATree() {
    Acker acker = memory.client();
    Map<String, String> nonsense = Map.of("acker-anchors", "nonsense");
    assertThrows(AckerException.InvalidHeader.class, () -> acker.receive(nonsense, "bolt"));
    assertThrows(AckerException.Usage.class, () -> acker.receive(Map.of(), ""));
    Tuple tuple = acker.receive(Map.of(), "bolt");
    tuple.ack();
    AckerException error = assertThrows(AckerException.TupleClosed.class, tuple::ack);
    assertInstanceOf(AckerException.Usage.class, error);
    assertEquals("tuple_closed", error.code());
    assertFalse(error.retryable());
    assertFalse(error.advice().isEmpty());
  }

  @Test
  void injectedHeadersAreThoseOfTheCurrentTupleAndCanBeSigned() {
    Acker acker = memory.client();
    String secret = "32 random characters, from a file";
    Map<String, String> sent = new HashMap<>(Map.of("Accept", "*/*"));
    acker.process(
        emit(acker, "42", "a").children().get(0),
        "bolt",
        tuple -> {
          Propagate.inject(Carrier.of(sent), "charge");
          Signatures.sign(Carrier.of(sent), secret);
          String first = sent.get(Anchors.HEADER);
          Propagate.inject(Carrier.of(sent));
          assertEquals(first, sent.get(Anchors.HEADER));
        });
    assertEquals(3, sent.size());
    Signatures.verify(Carrier.of(sent), List.of(secret));
    Map<String, String> others = new HashMap<>();
    Propagate.inject(Carrier.of(others));
    assertEquals(Map.of(), others);
  }

  @Test
  void whatIsCurrentGoesAlongIntoAnotherThread() throws Exception {
    Acker acker = memory.client();
    ExecutorService threads = Executors.newSingleThreadExecutor();
    acker.process(
        emit(acker, "42", "a").children().get(0),
        "bolt",
        tuple -> {
          Callable<Optional<Tuple>> asks = Propagate::currentTuple;
          assertEquals(Optional.empty(), threads.submit(asks).get());
          assertEquals(Optional.of(tuple), threads.submit(Propagate.wrap(asks)).get());
          assertEquals(Optional.empty(), threads.submit(asks).get());
        });
    threads.shutdown();
  }

  @Test
  void completionsAreReleasedAfterTheLastOfAPageWasHandled() {
    Acker acker = memory.client();
    Stream.of("1", "2", "3").forEach(each -> emit(acker, each));
    List<String> seen = new ArrayList<>();
    ReadOptions options = ReadOptions.defaults().withPageSize(2).withStop(() -> seen.size() == 3);
    Work<String, RuntimeException> note =
        messageId -> {
          assertTrue(memory.completions("orders").size() >= 3 - seen.size() / 2 * 2);
          seen.add(messageId);
        };
    acker.sharedSpout("orders").listen(options, Completion.byOutcome(note, NOTHING));
    assertEquals(List.of("1", "2", "3"), seen);
    assertEquals(List.of(), memory.completions("orders"));
  }

  @Test
  void aPageWhoseHandlingThrowsComesAgain() {
    Acker acker = memory.client();
    emit(acker, "42");
    Spout spout = acker.sharedSpout("orders");
    assertThrows(
        IOException.class,
        () ->
            spout.listen(
                completion -> {
                  throw new IOException("not now");
                }));
    assertEquals(List.of("42"), memory.completions("orders"));
  }

  @Test
  void readingEndsWhenItsThreadIsInterrupted() {
    Acker acker = memory.client();
    emit(acker, "42");
    acker.sharedSpout("orders").listen(completion -> Thread.currentThread().interrupt());
    assertTrue(Thread.interrupted());
    assertEquals(List.of(), memory.completions("orders"));
  }

  @Test
  void aKeyIsNoNumberWhateverItBeginsWith() {
    Acker acker = memory.client();
    Carrier headers = Carrier.of(emit(acker, "42", "a").children().get(0));
    Tuple tuple = acker.receive(headers, ReceiveOptions.of("bolt").asRepeatable());
    List<Tuple> twice = List.of(tuple, tuple);
    for (String key : List.of("5", "#5", "#", "#0")) {
      assertThrows(AckerException.DuplicateKey.class, () -> acker.anchor(twice, key));
    }
    assertEquals(2, acker.anchor(twice, null).size());
  }

  @ParameterizedTest
  @ValueSource(strings = {"secret\n", "sec\rret", "secret\u0000", "\u007fsecret", "secret\u20ac"})
  void anApiKeyThatIsNoHeaderIsRefusedAndNotShown(String key) {
    Acker.Builder builder = Acker.builder("http://127.0.0.1:8700").apiKey(key);
    AckerException error = assertThrows(AckerException.Usage.class, builder::build);
    assertFalse(error.getMessage().contains("sec"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "127.0.0.1:8700", "ftp://acker", "http://", "http:// "})
  void anAddressThatIsNoneIsRefused(String url) {
    assertThrows(AckerException.Usage.class, () -> Acker.at(url));
  }

  @Test
  void nameOfAnOwnSpoutTaskTellsTheProcessAndIsAName() {
    Acker acker = memory.client();
    String name = acker.spout("x".repeat(128)).name();
    assertTrue(Checks.isName(name));
    assertTrue(name.contains("-" + ProcessHandle.current().pid() + "-"));
    assertEquals(name, acker.spout("x".repeat(128)).name());
  }

  @Test
  void manyFirstEmitsReadTheTopologyAndRegisterTheSpoutOnce() throws Exception {
    Acker acker = memory.client();
    Spout spout = acker.spout("reader");
    ExecutorService threads = Executors.newFixedThreadPool(16);
    List<Future<?>> all = new ArrayList<>();
    for (int at = 0; at < 50; at++) {
      String messageId = Integer.toString(at);
      all.add(threads.submit(() -> spout.emit(messageId, NOTHING)));
    }
    for (Future<?> each : all) {
      each.get();
    }
    threads.shutdown();
    Map<String, Long> counts =
        memory.requests().stream()
            .collect(Collectors.groupingBy(InMemoryAcker.Received::method, Collectors.counting()));
    assertEquals(1, counts.get("GET"));
    assertEquals(1, counts.get("PUT"));
  }

  @Test
  void theStartupTimeoutSaysThatNoAckerAnswers() {
    // a port of this machine where nobody listens
    Acker acker =
        Acker.builder("http://127.0.0.1:1").startupTimeout(Duration.ofMillis(100)).build();
    Spout spout = acker.sharedSpout("orders");
    AckerException error =
        assertThrows(AckerException.RetriesExhausted.class, () -> spout.emit("42", NOTHING));
    assertTrue(
        error.getMessage().startsWith("no acker answers at http://127.0.0.1:1"),
        error.getMessage());
    assertFalse(error.outcomeUnknown());
  }
}
