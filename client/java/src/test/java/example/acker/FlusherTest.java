package example.acker;

import static example.acker.Memory.NOTHING;
import static example.acker.Memory.emit;
import static example.acker.Memory.until;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTimeoutPreemptively;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicBoolean;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** Acks in the background, whose requests wait at a gate. */
class FlusherTest {
  private final InMemoryAcker memory = new InMemoryAcker();
  private final CountDownLatch gate = new CountDownLatch(1);
  private final ExecutorService threads = Executors.newCachedThreadPool();

  @AfterEach
  void endThreads() {
    gate.countDown();
    threads.shutdownNow();
  }

  private void pass() throws IOException {
    try {
      gate.await();
    } catch (InterruptedException e) {
      throw new IOException(e);
    }
  }

  /** Returns a builder whose acks wait at the gate, and are answered with a problem then. */
  private Acker.Builder refusing(String code) {
    return memory
        .builder()
        .httpClient(
            Memory.through(
                memory,
                asked -> {
                  if (Memory.isAck(asked)) {
                    pass();
                    memory.fail(new InMemoryAcker.Fault.Problem(code));
                  }
                  return true;
                }));
  }

  private static AckerException lostBy(Future<?> flush) {
    ExecutionException error = assertThrows(ExecutionException.class, flush::get);
    return assertInstanceOf(AckerException.OperationsLost.class, error.getCause());
  }

  private static int waiting(Acker acker) {
    return acker.submitter().flusher.waiting();
  }

  @Test
  void eachFlushThrowsWhatItHasWaitedForOnce() {
    Acker acker = refusing("forbidden").batchSize(2).build();
    List<Map<String, String>> children = emit(acker, "42", "a", "b").children();
    children.forEach(headers -> acker.process(headers, "bolt", NOTHING));
    List<Future<?>> flushes = new ArrayList<>();
    for (int at = 0; at < 20; at++) {
      flushes.add(threads.submit(acker::flush));
    }
    until(() -> waiting(acker) == 20);
    acker.process(Map.of(), "bolt", NOTHING);
    gate.countDown();
    for (Future<?> each : flushes) {
      assertEquals(2, lostBy(each).operations());
    }
    acker.flush();
    assertEquals(2, acker.stats().lost());
  }

  @Test
  void aFlushThatIsInterruptedLeavesWhatFailsToTheNextCall() {
    Acker acker = refusing("forbidden").batchSize(1).build();
    acker.process(emit(acker, "42", "a").children().get(0), "bolt", NOTHING);
    Thread.currentThread().interrupt();
    assertThrows(AckerException.Canceled.class, acker::flush);
    assertTrue(Thread.interrupted());
    gate.countDown();
    until(() -> acker.stats().inFlight() == 0);
    assertThrows(
        AckerException.OperationsLost.class, () -> acker.process(Map.of(), "bolt", NOTHING));
    acker.process(Map.of(), "bolt", NOTHING);
  }

  @Test
  void aFailThatWaitsForLostAcksLeavesThemToTheFlush() throws Exception {
    Acker acker = refusing("forbidden").batchSize(1).build();
    List<Map<String, String>> children = emit(acker, "42", "a", "b").children();
    acker.process(children.get(0), "bolt", NOTHING);
    Tuple tuple = acker.receive(children.get(1), "bolt");
    Future<?> flush = threads.submit(acker::flush);
    Future<?> fail = threads.submit(() -> tuple.fail("late"));
    until(() -> waiting(acker) == 2);
    gate.countDown();
    fail.get();
    assertEquals(1, lostBy(flush).operations());
    acker.flush();
  }

  @Test
  void anAckThatIsRefusedHoldsNothingElseUp() {
    Acker acker = refusing("store_full").build();
    gate.countDown();
    Memory.Emitted root = emit(acker, "42", "a", "b");
    acker.process(root.children().get(0), "bolt", NOTHING);
    until(() -> memory.requests().stream().anyMatch(each -> each.path().endsWith("/ack")));
    Tuple tuple = acker.receive(root.children().get(1), "bolt");
    tuple.resetTimeout();
    emit(acker, "43", "a");
    tuple.fail("late");
    assertEquals(Optional.of(Outcome.FAILED), memory.outcome(root.rootId()));
  }

  @Test
  void anAckThatWaitsForSpaceWhenTheClientIsClosedIsRefused() throws Exception {
    Acker acker =
        memory
            .builder()
            .linger(Duration.ofMinutes(1))
            .batchSize(2)
            .bufferSize(2)
            .httpClient(
                Memory.through(
                    memory,
                    asked -> {
                      if (Memory.isAck(asked)) {
                        pass();
                      }
                      return true;
                    }))
            .build();
    Memory.Emitted root = emit(acker, "42", "a", "b", "c");
    root.children().subList(0, 2).forEach(headers -> acker.process(headers, "bolt", NOTHING));
    Tuple tuple = acker.receive(root.children().get(2), "bolt");
    Future<?> ack = threads.submit(tuple::ack);
    until(() -> acker.submitter().flusher.waitingForSpace() == 1);
    Future<?> close = threads.submit(acker::close);
    ExecutionException error = assertThrows(ExecutionException.class, ack::get);
    assertInstanceOf(AckerException.ClientClosed.class, error.getCause());
    assertFalse(tuple.closed());
    gate.countDown();
    close.get();
    try (Acker another = memory.client()) {
      another.process(root.children().get(2), "bolt", NOTHING);
    }
    assertEquals(Optional.of(Outcome.ACKED), memory.outcome(root.rootId()));
  }

  @Test
  void anErrorWhileAcksAreSentLosesThemAndNoneThatComeLater() {
    AtomicBoolean isShort = new AtomicBoolean(true);
    Acker acker =
        memory
            .builder()
            .httpClient(
                Memory.through(
                    memory,
                    asked -> {
                      if (Memory.isAck(asked) && isShort.getAndSet(false)) {
                        throw new OutOfMemoryError("no more memory");
                      }
                      return true;
                    }))
            .build();
    Memory.Emitted root = emit(acker, "42", "a", "b");
    acker.process(root.children().get(0), "bolt", NOTHING);
    AckerException error =
        assertTimeoutPreemptively(
            Duration.ofSeconds(30),
            () -> assertThrows(AckerException.OperationsLost.class, acker::flush));
    assertEquals(1, error.operations());
    root.children().forEach(headers -> acker.process(headers, "bolt", NOTHING));
    acker.flush();
    assertEquals(Optional.of(Outcome.ACKED), memory.outcome(root.rootId()));
  }

  @Test
  void anAckIsRefusedWhereTheBufferIsFull() {
    Acker acker = refusing("forbidden").batchSize(1).bufferSize(1).onFull(OnFull.THROW).build();
    List<Map<String, String>> children = emit(acker, "42", "a", "b").children();
    acker.process(children.get(0), "bolt", NOTHING);
    Tuple tuple = acker.receive(children.get(1), "bolt");
    AckerException error = assertThrows(AckerException.BufferFull.class, tuple::ack);
    assertTrue(error.retryable());
    assertFalse(tuple.closed());
  }
}
