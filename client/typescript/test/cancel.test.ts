import assert from "node:assert/strict";
import { test } from "node:test";
import { Acker, CanceledError, OperationsLostError, type Request, ServiceError, type Transport } from "../src/index.js";
import { MemoryAcker } from "../src/testing.js";

const logger = { warn: () => undefined };
const busy = new ServiceError("overloaded", "busy");

/** Return a signal that is aborted by the first request that fits; `transport` answers all others. */
function abortedBy(fits: (request: Request) => boolean, transport: Transport): [AbortSignal, Transport] {
  const aborting = new AbortController();
  const send: Transport["send"] = (request, timeoutMs) => {
    if (fits(request)) {
      aborting.abort(new Error("enough"));
    }
    return transport.send(request, timeoutMs);
  };
  return [aborting.signal, { send, close: () => transport.close() }];
}

function isCanceled(outcomeUnknown: boolean): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof CanceledError, String(error));
    assert.deepEqual(
      [error.code, error.retryable, error.outcomeUnknown, (error.cause as Error).message],
      ["canceled", false, outcomeUnknown, "enough"],
    );
    return true;
  };
}

const ABORTED = AbortSignal.abort(new Error("enough"));

test("an emit that is aborted is not sent again, and may have been applied", async () => {
  const memory = new MemoryAcker();
  const [signal, transport] = abortedBy((request) => request.path.endsWith("/init"), memory);
  const acker = new Acker("http://memory", { transport, logger });
  const spout = acker.sharedSpout("orders");
  await spout.emit("1", (root) => root.headers());
  const before = memory.requests.length;
  memory.faults.push(busy, busy);
  await assert.rejects(
    spout.emit("2", (root) => root.headers(), { signal }),
    (error) => error instanceof CanceledError,
  );
  assert.ok(memory.requests.length <= before + 1);
  await acker.close();
});

test("an init without an answer is not sent again once its signal is aborted", async () => {
  const memory = new MemoryAcker();
  const aborting = new AbortController();
  const acker = memory.acker({ logger: { warn: () => aborting.abort(new Error("enough")) } });
  const spout = acker.sharedSpout("orders");
  await spout.emit("1", (root) => root.headers());
  memory.faults.push("lost_answer", busy);
  await assert.rejects(
    spout.emit("2", (root) => root.headers(), { signal: aborting.signal }),
    isCanceled(true),
  );
  assert.deepEqual(memory.faults, [busy]);
});

test("an emit that waits for a free place ends, and no init was sent", async () => {
  const memory = new MemoryAcker({ maxSpoutPending: 1 });
  const acker = memory.acker({ logger });
  const spout = acker.sharedSpout("orders");
  await spout.emit("1", (root) => root.headers());
  const aborting = new AbortController();
  setTimeout(() => aborting.abort(new Error("enough")), 10);
  const emitted = spout.emit("2", (root) => root.headers(), { signal: aborting.signal });
  await assert.rejects(emitted, isCanceled(false));
  assert.equal(memory.requests.filter((each) => each.path.endsWith("/init")).length, 1);
});

test("an emit ends whose free places are counted without an answer", async () => {
  const memory = new MemoryAcker({ maxSpoutPending: 1 });
  const aborting = new AbortController();
  const silent: Transport = {
    send: (request) => {
      if (!request.path.endsWith("/spouts/orders")) {
        return memory.send(request);
      }
      return new Promise((resolve) => {
        request.signal?.addEventListener("abort", () => resolve({ error: new Error("aborted"), refusedBy: "" }));
        setImmediate(() => aborting.abort(new Error("enough")));
      });
    },
    close: () => undefined,
  };
  const spout = new Acker("http://memory", { transport: silent, logger }).sharedSpout("orders");
  await assert.rejects(spout.emit("1", undefined, { signal: aborting.signal }), isCanceled(false));
});

test("an ack that was aborted before it is sent leaves its tuple open", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ logger });
  const headers = await acker.sharedSpout("orders").emit("1", (root) => root.headers());
  const another = memory.acker({ logger });
  const tuple = another.receive(headers, "bolt");
  await assert.rejects(tuple.ack({ signal: ABORTED }), isCanceled(false));
  assert.equal(tuple.closed, false);
  await tuple.ack();
  await another.flush();
  assert.deepEqual(memory.completions("orders"), ["1"]);
});

test("a fail and a reset that were aborted before they are sent leave their tuple open", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ logger });
  const headers = await acker.sharedSpout("orders").emit("1", (root) => root.headers());
  const tuple = acker.receive(headers, "bolt");
  await assert.rejects(tuple.fail("no", { signal: ABORTED }), isCanceled(false));
  await assert.rejects(tuple.resetTimeout({ signal: ABORTED }), isCanceled(false));
  await tuple.ack();
  await acker.flush();
  assert.deepEqual(memory.completions("orders"), ["1"]);
});

test("a flush that is aborted loses no error: the next call throws it", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ linger: 60_000, logger });
  const headers = await acker.sharedSpout("orders").emit("1", (root) => root.headers());
  await acker.receive(headers, "bolt").ack();
  memory.faults.push(new ServiceError("forbidden", "not with this key"));
  await assert.rejects(acker.flush({ signal: ABORTED }), isCanceled(false));
  while (acker.stats().lost === 0) {
    await new Promise(setImmediate);
  }
  await assert.rejects(acker.flush(), OperationsLostError);
});

test("a tuple whose function throws after its signal was aborted stays open", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ logger });
  const aborting = new AbortController();
  const headers = await acker.sharedSpout("orders").emit("1", (root) => root.headers());
  const stop = () => {
    aborting.abort(new Error("enough"));
    aborting.signal.throwIfAborted();
  };
  await assert.rejects(acker.process(headers, "bolt", stop, { signal: aborting.signal }), /enough/);
  await acker.process(headers, "bolt", () => aborting.abort(), { signal: new AbortController().signal });
  await acker.flush();
  assert.deepEqual(memory.completions("orders"), ["1"]);
});
