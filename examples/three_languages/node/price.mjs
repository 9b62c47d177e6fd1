// Prices an order, and lets the stock reserve it: a bolt behind Express.
import { Acker, inject } from "acker-client";
import { expressBolt, expressErrors } from "acker-client/http";
import express from "express";

const acker = Acker.fromEnv();
const app = express();
app.use(expressBolt(acker, { component: "price" }));
app.use(express.text());

app.post("/", async (request, response) => {
  const order = request.body;
  const answer = await fetch(process.env.STOCK_URL, {
    method: "POST",
    headers: inject({ "Content-Type": "application/json" }, "stock"), // a child of the tuple
    body: JSON.stringify({ order, cents: priceOf(order) }),
  });
  if (!answer.ok) throw new Error(`the stock answered ${answer.status}`);
  response.sendStatus(204); // acks
});
app.use(expressErrors());

function priceOf(order) {
  return 100 + (Number(order.split("-")[1]) % 900);
}

const server = app.listen(process.env.PORT, "127.0.0.1");
process.on("SIGTERM", () => server.close(() => acker.close()));
