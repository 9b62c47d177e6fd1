package bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.OutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseRichBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/**
 * A spout, a split and counts of ten words a sentence, in Storm's LocalCluster; prints one line of JSON.
 *
 * Arguments: warm-up seconds, measured seconds, workers, ackers, and tuples that may be pending. Every task is in this
 * process, so its processor time is that of all parts; tuples between two workers go through Netty all the same.
 */
public final class Words {

    static final int COUNTS = 10;
    static final AtomicLong ACKED = new AtomicLong();
    static final AtomicLong FAILED = new AtomicLong();

    static final class Sentences extends BaseRichSpout {
        private transient SpoutOutputCollector out;
        private transient String[] sentences;
        private transient long next;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            out = collector;
            sentences = new String[1000];
            for (int i = 0; i < sentences.length; i++) {
                StringBuilder words = new StringBuilder();
                for (int j = 0; j < COUNTS; j++) {
                    words.append(j == 0 ? "" : " ").append("word").append((i * 31 + j * 7) % 997);
                }
                sentences[i] = words.toString();
            }
        }

        @Override
        public void nextTuple() {
            out.emit(new Values(sentences[(int) (next % sentences.length)]), next++);
        }

        @Override
        public void ack(Object messageId) {
            ACKED.incrementAndGet();
        }

        @Override
        public void fail(Object messageId) {
            FAILED.incrementAndGet();
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("text"));
        }
    }

    /** One anchored child a word. */
    static final class Split extends BaseRichBolt {
        private transient OutputCollector out;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            out = collector;
        }

        @Override
        public void execute(Tuple input) {
            for (String word : input.getString(0).split(" ")) {
                out.emit(input, new Values(word));
            }
            out.ack(input);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("word"));
        }
    }

    static final class Count extends BaseRichBolt {
        private transient OutputCollector out;
        private transient Map<String, Long> counts;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            out = collector;
            counts = new HashMap<>();
        }

        @Override
        public void execute(Tuple input) {
            counts.merge(input.getString(0), 1L, Long::sum);
            out.ack(input);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) { }
    }

    public static void main(String[] arguments) throws Exception {
        int[] given = java.util.Arrays.stream(arguments).mapToInt(Integer::parseInt).toArray();
        Config conf = new Config();
        conf.setNumWorkers(given[2]);
        conf.setNumAckers(given[3]);
        conf.setMaxSpoutPending(given[4]);
        conf.setMessageTimeoutSecs(30);
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("sentences", new Sentences(), 1);
        builder.setBolt("split", new Split(), 1).shuffleGrouping("sentences");
        builder.setBolt("count", new Count(), 1).fieldsGrouping("split", new Fields("word"));
        // LocalCluster.Builder turns message timeouts off unless it is set otherwise.
        Map<String, Object> daemons = Map.of(Config.TOPOLOGY_ENABLE_MESSAGE_TIMEOUTS, true);
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        try (LocalCluster cluster = new LocalCluster.Builder().withDaemonConf(daemons).build();
             LocalCluster.LocalTopology running = cluster.submitTopology("words", conf, builder.createTopology())) {
            for (int waited = 0; ACKED.get() == 0 && waited < 900; waited++) {
                Thread.sleep(200);
            }
            Thread.sleep(given[0] * 1000L);
            long roots = ACKED.get(), cpu = system.getProcessCpuTime(), began = System.nanoTime();
            Thread.sleep(given[1] * 1000L);
            roots = ACKED.get() - roots;
            cpu = system.getProcessCpuTime() - cpu;
            double wall = (System.nanoTime() - began) / 1e9;
            System.out.printf("{\"roots\": %d, \"cpu_s\": %.3f, \"wall_s\": %.3f, \"failed\": %d}%n",
                roots, cpu / 1e9, wall, FAILED.get());
        }
        System.exit(0);
    }

    private Words() { }
}
