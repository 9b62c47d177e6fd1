// Receives what became of the orders: notes those that are done, and puts the others back into their queue.
import { appendFileSync } from "node:fs";
import { createServer } from "node:http";
import { webhookReceiver } from "acker-client/webhook";
import amqp from "amqplib";

const connection = await amqp.connect(process.env.BROKER_URL);
connection.on("close", () => process.exit(1)); // whoever runs this starts it again
const channel = await connection.createConfirmChannel();

const receive = webhookReceiver({
  secrets: process.env.WEBHOOK_SECRET,
  onAck: (order) => appendFileSync(process.env.DONE_FILE, `${order}\n`),
  onFail: async (order) => {
    channel.sendToQueue("orders", Buffer.from(order), { persistent: true });
    await channel.waitForConfirms();
  },
});
createServer(receive).listen(process.env.PORT, "127.0.0.1");
