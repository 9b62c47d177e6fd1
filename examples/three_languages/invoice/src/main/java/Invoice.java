import static java.nio.charset.StandardCharsets.UTF_8;
import static java.nio.file.StandardOpenOption.APPEND;
import static java.nio.file.StandardOpenOption.CREATE;
import static java.nio.file.StandardOpenOption.DSYNC;

import com.rabbitmq.client.Channel;
import com.rabbitmq.client.ConnectionFactory;
import com.rabbitmq.client.Delivery;
import example.acker.Acker;
import example.acker.AckerException;
import example.acker.Carrier;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/** Writes the invoice of each order: a bolt that reads a queue of RabbitMQ. */
public final class Invoice {
  private static final Path INVOICES = Path.of(System.getenv("INVOICES_FILE"));

  private Invoice() {}

  /** Works until the process is ended. */
  public static void main(String[] arguments) throws Exception {
    Acker acker = Acker.fromEnv().build();
    ConnectionFactory factory = new ConnectionFactory(); // it connects again by itself
    factory.setUri(System.getenv("BROKER_URL"));
    Channel channel = factory.newConnection().createChannel();
    channel.queueDeclare("invoices", true, false, false, null);
    channel.basicQos(10);
    channel.basicConsume("invoices", (tag, order) -> work(acker, channel, order), tag -> {});
  }

  private static void work(Acker acker, Channel channel, Delivery order) throws IOException {
    long tag = order.getEnvelope().getDeliveryTag();
    try {
      acker.process(
          Carrier.amqp(order.getProperties().getHeaders()),
          "invoice",
          tuple -> {
            String line = new String(order.getBody(), UTF_8) + "\n";
            Files.writeString(INVOICES, line, UTF_8, CREATE, APPEND, DSYNC);
          });
    } catch (AckerException.InvalidHeader refused) {
      channel.basicReject(tag, false);
      return;
    }
    channel.basicAck(tag, false);
  }
}
