// A bolt on RabbitMQ: takes the words of a line from one queue, and sends each on to another.
import { Acker } from "acker-client";
import amqp from "amqplib";

const [url, acker_url] = process.argv.slice(2);
const acker = new Acker(acker_url);
const connection = await amqp.connect(url);
const channel = await connection.createConfirmChannel();
for (const queue of ["lines", "words"]) await channel.assertQueue(queue);

await channel.consume("lines", async (message) => {
  const { headers } = message.properties;
  await acker.process(headers, "split", async (tuple) => {
    for (const word of message.content.toString().split(" ")) {
      channel.sendToQueue("words", Buffer.from(word), { headers: tuple.anchor(word).headers(headers) });
    }
    await channel.waitForConfirms();
  });
  channel.ack(message);
});
process.stdin.on("end", async () => {
  await connection.close();
  await acker.close();
});
process.stdin.resume();
console.log("ready");
