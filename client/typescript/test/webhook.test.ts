import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener, request, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { after, mock, test } from "node:test";
import { Webhook } from "standardwebhooks";
import { type WebhookOptions, webhookReceiver } from "../src/webhook.js";

const SECRET = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
const BATCH = JSON.stringify({
  type: "completion.batch",
  data: {
    completions: [
      {
        id: "c1",
        root_id: "00000000000000a1",
        outcome: "acked",
        message_id: "1",
        reason: null,
        component: null,
        complete_latency_ms: 5,
        at_ms: 1_790_000_000_000,
      },
    ],
  },
});

const servers: Server[] = [];
after(() => {
  for (const server of servers) {
    server.close().closeAllConnections();
  }
});

async function listen(listener: RequestListener): Promise<{ server: Server; url: string }> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

function signed(body: string): Record<string, string> {
  const at = new Date();
  return {
    "webhook-id": "msg_1",
    "webhook-timestamp": String(Math.floor(at.getTime() / 1_000)),
    "webhook-signature": new Webhook(SECRET).sign("msg_1", at, body),
  };
}

function receive(options: Partial<WebhookOptions> = {}): RequestListener {
  return webhookReceiver({ secrets: SECRET, handler: () => undefined, ...options });
}

test("a caller whose body breaks off is answered nothing, and the next one is", async () => {
  const logged = mock.method(console, "error", () => undefined);
  const { server, url } = await listen(receive());
  const head = Object.entries({ Host: "a", "Content-Length": 1_000, ...signed("") });
  for (const body of ["", "begun"]) {
    const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
    const [accepted] = await once(server, "connection");
    const closed = new Promise((resolve) => accepted.once("close", resolve));
    const asked = once(server, "request");
    socket.write(`POST / HTTP/1.1\r\n${head.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`);
    await asked;
    socket.destroy();
    await closed;
  }
  assert.equal((await fetch(url, { method: "POST", headers: signed(BATCH), body: BATCH })).status, 200);
  assert.equal(logged.mock.callCount(), 0);
  logged.mock.restore();
});

const FAULTS: Record<string, RequestListener> = {
  "an onError that throws": receive({
    handler: () => {
      throw new Error("no such message");
    },
    onError: () => {
      throw new Error("no such log");
    },
  }),
  "a body that was read before": async (asked, response) => {
    for await (const _ of asked) {
      // as a parser does
    }
    await receive()(asked, response);
  },
};

for (const [name, listener] of Object.entries(FAULTS)) {
  test(`${name} is logged and answered 500`, async () => {
    const logged = mock.method(console, "error", () => undefined);
    const { url } = await listen(listener);
    assert.equal((await fetch(url, { method: "POST", headers: signed(BATCH), body: BATCH })).status, 500);
    assert.equal(logged.mock.callCount(), 1);
    logged.mock.restore();
  });
}

test("a body that tells no length is refused once it is too long, before all of it has come", async () => {
  const { url } = await listen(receive({ maxBodyBytes: 1_000 }));
  const asked = request(url, { method: "POST", headers: signed("") });
  asked.write("x".repeat(1_001));
  const [answer] = await once(asked, "response");
  assert.deepEqual([answer.statusCode, answer.headers.connection], [413, "close"]);
  asked.destroy();
});
