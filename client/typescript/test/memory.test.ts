import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Acker,
  ClientClosedError,
  type Completion,
  DropTuple,
  FailTuple,
  OperationsLostError,
  ServiceError,
} from "../src/index.js";
import { MemoryAcker } from "../src/testing.js";
import type { Transport } from "../src/transport.js";

const SILENT = { warn: () => undefined };

test("a tree in memory is acked when its bolts have acked", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ linger: 0 });
  const spout = acker.sharedSpout("orders");
  const header = await spout.emit("42", (root) => root.headers("greet"));
  const child = await acker.process(header, "split", (tuple) => tuple.headers("word-1"));
  assert.deepEqual(memory.completions("orders"), []);
  await acker.process(child, "count", () => undefined);
  assert.deepEqual(memory.completions("orders"), ["42"]);
});

test("a root that is not done times out, and its completion is read and released", async () => {
  const memory = new MemoryAcker({ messageTimeout: 1_000 });
  const acker = memory.acker();
  const spout = acker.sharedSpout("orders");
  await spout.emit("42", (root) => root.headers());
  memory.advance(1_000);
  const failed: string[] = [];
  await spout.listen({ onFail: (id) => failed.push(id), stop: () => failed.length > 0 });
  assert.deepEqual(failed, ["42"]);
  assert.deepEqual(memory.completions("orders"), []);
});

test("an ack whose answer is lost is sent again with its key, and counts once", async () => {
  const memory = new MemoryAcker({ dedupes: false });
  const acker = memory.acker({ linger: 0, logger: SILENT });
  const header = await acker.sharedSpout("orders").emit("42", (root) => [root.headers("a"), root.headers("b")]);
  memory.faults.push("lost_answer", null, "no_answer", new ServiceError("overloaded", "busy"));
  await acker.process(header?.[0], "bolt", () => undefined);
  await acker.process(header?.[1], "bolt", () => undefined);
  assert.deepEqual(memory.completions("orders"), ["42"]);
  const keys = memory.requests.filter((each) => each.path.endsWith("/ack")).map((each) => each.key);
  assert.equal(keys.length, 5);
  assert.equal(new Set(keys).size, 2);
});

test("an error tells its code, whether a retry helps, and what to do", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ linger: 60_000, logger: SILENT });
  const header = await acker.sharedSpout("orders").emit("42", (root) => root.headers("a"));
  await acker.process(header, "bolt", () => undefined);
  memory.faults.push(new ServiceError("forbidden", "not with this key"));
  await assert.rejects(acker.flush(), (error: unknown) => {
    assert.ok(error instanceof OperationsLostError);
    assert.deepEqual([error.code, error.retryable, error.operations], ["operations_lost", false, 1]);
    assert.match(error.advice, /make it again/);
    assert.equal((error.cause as ServiceError).code, "forbidden");
    return true;
  });
  await acker.close();
});

test("a spout task with a cap lets an emit wait until a root has ended", async () => {
  const memory = new MemoryAcker({ maxSpoutPending: 1 });
  const acker = memory.acker({ linger: 0 });
  const spout = acker.sharedSpout("orders");
  const header = await spout.emit("1", (root) => root.headers("a"));
  const second = spout.emit("2");
  await acker.process(header, "bolt", () => undefined);
  await second;
  assert.deepEqual(memory.completions("orders"), ["1", "2"]);
});

test("a root that ends when all have ended waits for every edge, and its completion counts them", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ linger: 0, logger: SILENT });
  const spout = acker.sharedSpout("imports");
  const rows = await spout.emit("1", (root) => ["a", "b", "c"].map((key) => root.headers(key)), {
    endOn: "all_ended",
  });
  let audit = {};
  await acker.process(rows?.[0], "load", (tuple) => {
    audit = tuple.headers("audit");
    throw new FailTuple("row 3 has no price");
  });
  await acker.process(rows?.[0], "load", () => {
    throw new FailTuple("delivered again");
  });
  await acker.process(rows?.[1], "load", () => {
    throw new DropTuple("no row");
  });
  await acker.process(rows?.[2], "load", () => undefined);
  assert.deepEqual(memory.completions("imports"), []);
  await acker.process(audit, "audit", () => undefined);
  const ended: Completion[] = [];
  for await (const completion of spout.completions({ stop: () => ended.length > 0 })) {
    ended.push(completion);
  }
  const [{ outcome, failures, dropped, reason, component } = {} as Completion] = ended;
  assert.deepEqual([outcome, failures, dropped], ["failed", 1, 1]);
  assert.deepEqual([reason, component], ["row 3 has no price", "load"]);
});

test("a topology says what ends its roots, and an emit may say otherwise", async () => {
  const memory = new MemoryAcker({ endOn: "all_ended", dedupes: false });
  const acker = memory.acker({ linger: 0 });
  const spout = acker.sharedSpout("imports");
  const first = await spout.emit("1", (root) => [root.headers(), root.headers()], { endOn: "first_fail" });
  const all = await spout.emit("2", (root) => [root.headers(), root.headers()]);
  await acker.receive(first?.[0], "load").fail("no");
  await acker.receive(all?.[0], "load").fail("no");
  assert.deepEqual(memory.completions("imports"), ["1"]);
  await acker.receive(all?.[1], "load").fail("no");
  assert.deepEqual(memory.completions("imports"), ["1", "2"]);
});

test("what a bolt's function threw is thrown on, also where the fail cannot be sent, which is a warning", async () => {
  const memory = new MemoryAcker();
  const warnings: string[] = [];
  const acker = memory.acker({ linger: 0, logger: { warn: (message) => warnings.push(message) } });
  const headers = await acker.sharedSpout("orders").emit("42", (root) => [root.headers("a"), root.headers("b")]);
  const run = (thrown: Error) => () => {
    throw thrown;
  };
  memory.faults.push(new ServiceError("forbidden", "not with this key"));
  await assert.rejects(acker.process(headers?.[0], "bolt", run(new Error("no such card"))), /no such card/);
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? "", /tuple of bolt .* not with this key/);
  memory.faults.push(new ServiceError("forbidden", "not with this key"));
  await assert.rejects(acker.process(headers?.[1], "bolt", run(new FailTuple("no"))), { code: "forbidden" });
  assert.equal(warnings.length, 1);
});

test("a message without an id frees no place of a root that is being emitted", async () => {
  const memory = new MemoryAcker({ maxSpoutPending: 1 });
  const acker = memory.acker({ emitTimeout: 100 });
  const spout = acker.sharedSpout("orders");
  await spout.emit("1", async () => {
    await spout.emit(null);
    await assert.rejects(
      spout.emit("2", () => assert.fail("it has no place")),
      { code: "max_spout_pending" },
    );
  });
});

test("calls at the same time read the topology, and register a spout task, once", async () => {
  const memory = new MemoryAcker();
  const acker = memory.acker({ linger: 1 });
  const spout = acker.spout("orders");
  await Promise.all(["1", "2", "3"].map((id) => spout.emit(id)));
  assert.equal(memory.requests.filter(({ method, path }) => method === "GET" && !path.includes("spouts")).length, 1);
  assert.equal(memory.requests.filter(({ method }) => method === "PUT").length, 1);
});

test("an ack that waits for space when its client is closed is refused, although space comes", async () => {
  const memory = new MemoryAcker();
  let answer: (() => void) | null = null;
  const late: Transport = {
    send: async (request) => {
      if (answer === null && request.operations[0]?.op === "ack") {
        await new Promise<void>((resolve) => {
          answer = resolve;
        });
      }
      return await memory.send(request);
    },
    close: () => undefined,
  };
  const options = { transport: late, linger: 60_000, batchSize: 1, bufferSize: 2 };
  const acker = new Acker("http://acker.test", options);
  const headers = await acker
    .sharedSpout("orders")
    .emit("42", (root) => [root.headers(), root.headers(), root.headers()]);
  await acker.receive(headers?.[0], "bolt").ack();
  await acker.receive(headers?.[1], "bolt").ack();
  const tuple = acker.receive(headers?.[2], "bolt");
  const acked = tuple.ack();
  while (answer === null || acker.internals().space === 0) {
    await new Promise(setImmediate);
  }
  const closed = acker.close();
  (answer as () => void)();
  await assert.rejects(acked, ClientClosedError);
  assert.equal(tuple.closed, false);
  await closed;
  assert.deepEqual(memory.completions("orders"), []);
  await memory.acker({ linger: 0 }).process(headers?.[2], "bolt", () => undefined);
  assert.deepEqual(memory.completions("orders"), ["42"]);
});

test("an init does not wait for acks that the acker refuses until the init has come", async () => {
  const memory = new MemoryAcker();
  let refusals = 0;
  const full: Transport = {
    send: (request) => {
      const [first] = request.operations;
      if (first?.op === "ack" && memory.outcome(first.root_id) === null) {
        memory.faults.push(new ServiceError("store_full", "no more early roots"));
        refusals += 1;
      }
      return memory.send(request);
    },
    close: () => undefined,
  };
  const acker = new Acker("http://acker.test", { transport: full, linger: 1, retryTimeout: 2_000, logger: SILENT });
  const rootId = await acker.sharedSpout("orders").emit("42", async (root) => {
    await acker.process(root.headers("a"), "bolt", () => undefined);
    while (refusals === 0) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return root.rootId;
  });
  await acker.flush();
  assert.deepEqual([memory.outcome(rootId ?? ""), acker.stats().lost], ["acked", 0]);
});
