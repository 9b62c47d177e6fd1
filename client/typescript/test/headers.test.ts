import assert from "node:assert/strict";
import { test } from "node:test";
import { runInNewContext } from "node:vm";
import { current, inject, sign, type Tuple, UsageError } from "../src/index.js";
import { MemoryAcker } from "../src/testing.js";

const NAME = "Acker-Anchors";
const SECRET = "32 random characters, from a file";

/** Run a function with a current tuple. */
async function within(run: (tuple: Tuple) => unknown): Promise<void> {
  const acker = new MemoryAcker().acker({ linger: 0 });
  const header = await acker.sharedSpout("orders").emit("42", (root) => root.headers("a"));
  await acker.process(header, "bolt", async (tuple) => void (await run(tuple)));
}

test("headers are injected into all that has a set, and into objects", async () => {
  await within(() => {
    const stale = { accept: "*/*", "acker-anchors-signature": "stale" };
    const sent = inject(new Headers(stale), "headers");
    assert.deepEqual([...sent.keys()], ["accept", "acker-anchors"]);
    const map = inject(new Map<string, unknown>(Object.entries(stale)), "map", { secret: SECRET });
    assert.deepEqual([...map.keys()], ["accept", NAME, "Acker-Anchors-Signature"]);
    assert.deepEqual(Object.keys(inject({ ...stale }, "object")), ["accept", NAME]);
    const before = sent.get(NAME);
    assert.equal(inject(sent, "again").get(NAME), before);
  });
});

for (const [name, headers] of Object.entries({ "an array": [], "a set": new Set(), "a text": "x", nothing: null })) {
  test(`${name} takes no headers, and no child is made for it`, async () => {
    await within((tuple) => {
      assert.throws(() => inject(headers as never, "a"), UsageError);
      assert.throws(() => sign(headers as never, SECRET), UsageError);
      assert.throws(() => tuple.anchor("b").headers(headers as never), UsageError);
      tuple.anchor("a");
    });
  });
}

test("other headers stay beside the anchors, whatever they are in", async () => {
  await within((tuple) => {
    const others = { accept: "*/*", "acker-anchors": "stale" };
    for (const [at, headers] of [others, new Headers(others), new Map(Object.entries(others))].entries()) {
      assert.deepEqual(Object.keys(tuple.anchor(String(at)).headers(headers)), ["accept", NAME]);
    }
    const own = tuple.headers("signed");
    for (const headers of [own, new Headers(own), new Map(Object.entries(own))]) {
      assert.equal(Object.keys(sign(headers, SECRET)).length, 2);
    }
  });
});

test("a header that is undefined is none, and null is refused", async () => {
  await within(async () => {
    const acker = new MemoryAcker().acker();
    assert.equal(acker.receive({ [NAME]: undefined }, "bolt").tracked, false);
    assert.equal(acker.receive([[NAME, undefined]], "bolt").tracked, false);
    assert.equal(acker.receive([{ [NAME]: undefined }], "bolt").tracked, false);
    assert.throws(() => acker.receive({ [NAME]: null }, "bolt"), { code: "invalid_header" });
    assert.ok(inject<Record<string, unknown>>({ [NAME]: undefined })[NAME]);
    await current();
  });
});

test("bytes of another realm are bytes", () => {
  const value = "00 default 00000000000000a1-00000000000000b1";
  const bytes = runInNewContext("Uint8Array.from(bytes)", { bytes: [...Buffer.from(value)] });
  assert.equal(new MemoryAcker().acker().receive({ [NAME]: bytes }, "bolt").tracked, true);
});
