// A bolt on Kafka: takes the words of a line from one topic, and sends each on to another.
import { Acker } from "acker-client";
import { Kafka, logLevel } from "kafkajs";

const [address, acker_url] = process.argv.slice(2);
const acker = new Acker(acker_url);
const kafka = new Kafka({ brokers: [address], logLevel: logLevel.ERROR });
const producer = kafka.producer();
const consumer = kafka.consumer({ groupId: "split" });
await producer.connect();
await consumer.connect();
await consumer.subscribe({ topic: "lines", fromBeginning: true });

await consumer.run({
  eachMessage: async ({ message: { headers, value } }) => {
    await acker.process(headers, "split", async (tuple) => {
      const messages = value.toString().split(" ").map((word) => ({ value: word, headers: tuple.anchor(word).headers(headers) }));
      await producer.send({ topic: "words", messages });
    });
  },
});
process.stdin.on("end", async () => {
  await consumer.disconnect();
  await producer.disconnect();
  await acker.close();
});
process.stdin.resume();
console.log("ready");
