package bench;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.storm.Config;
import org.apache.storm.LocalCluster;
import org.apache.storm.ProcessSimulator;
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
 * What Storm reports of roots when one of two workers is stopped and one task of a hundred is delivered twice.
 *
 * Arguments: roots, tasks of each, the message timeout in seconds, and the seconds until it gives up. The source keeps a
 * root until it was acked: what fails, or was pending in a spout that is gone, is emitted again. Prints one line of JSON:
 * roots that were reported, reported before all their tasks were done, reported again, and emitted again.
 */
public final class Faults {

    static final int DOUBLED = 100;
    static final long WORK_MS = 20;
    static final int THREADS = 8;
    static final Queue<Integer> SOURCE = new ConcurrentLinkedQueue<>();
    static final Map<Integer, Set<Integer>> DONE = new ConcurrentHashMap<>();
    static final Map<Integer, AtomicInteger> REPORTED = new ConcurrentHashMap<>();
    static final AtomicInteger EARLY = new AtomicInteger();
    static final AtomicInteger REPLAYED = new AtomicInteger();
    static final AtomicInteger WORKED = new AtomicInteger();
    static int roots;
    static int tasks;

    static final class Jobs extends BaseRichSpout {
        private transient SpoutOutputCollector out;

        @Override
        public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
            out = collector;
            if (!DONE.isEmpty()) {   // the worker of the earlier spout was stopped, and what it had emitted is nobody's
                REPLAYED.addAndGet(roots - REPORTED.size());
            }
            SOURCE.clear();
            for (int root = 0; root < roots; root++) {
                if (!REPORTED.containsKey(root)) {
                    SOURCE.add(root);
                }
            }
        }

        @Override
        public void nextTuple() {
            Integer root = SOURCE.poll();
            if (root != null) {
                out.emit(new Values(root), root);
            }
        }

        @Override
        public void ack(Object messageId) {
            Integer root = (Integer) messageId;
            if (DONE.getOrDefault(root, Set.of()).size() < tasks) {
                EARLY.incrementAndGet();
            }
            REPORTED.computeIfAbsent(root, ignored -> new AtomicInteger()).incrementAndGet();
        }

        @Override
        public void fail(Object messageId) {
            REPLAYED.incrementAndGet();
            SOURCE.add((Integer) messageId);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("root"));
        }
    }

    static final class Split extends BaseRichBolt {
        private transient OutputCollector out;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            out = collector;
        }

        @Override
        public void execute(Tuple input) {
            for (int number = 0; number < tasks; number++) {
                out.emit(input, new Values(input.getInteger(0), number));
            }
            out.ack(input);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields("root", "number"));
        }
    }

    static final class Leaf extends BaseRichBolt {
        private transient OutputCollector out;

        @Override
        public void prepare(Map<String, Object> conf, TopologyContext context, OutputCollector collector) {
            out = collector;
        }

        @Override
        public void execute(Tuple input) {
            work(input);
            if (WORKED.incrementAndGet() % DOUBLED == 0) {
                work(input);
            }
        }

        private void work(Tuple input) {
            try {
                Thread.sleep(WORK_MS);
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
                return;   // a task that was not worked on is not acked
            }
            DONE.computeIfAbsent(input.getInteger(0), ignored -> ConcurrentHashMap.newKeySet()).add(input.getInteger(1));
            out.ack(input);
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) { }
    }

    /** The workers of a LocalCluster; once one is killed, Nimbus misses its heartbeats. */
    static final class Workers extends ProcessSimulator {
        static List<String> ids() {
            return new ArrayList<>(processMap.keySet());
        }
    }

    public static void main(String[] arguments) throws Exception {
        roots = Integer.parseInt(arguments[0]);
        tasks = Integer.parseInt(arguments[1]);
        long end = System.currentTimeMillis() + 1000L * Integer.parseInt(arguments[3]);
        Config conf = new Config();
        conf.setNumWorkers(2);
        conf.setNumAckers(1);
        conf.setMessageTimeoutSecs(Integer.parseInt(arguments[2]));
        TopologyBuilder builder = new TopologyBuilder();
        builder.setSpout("jobs", new Jobs(), 1);
        builder.setBolt("split", new Split(), 1).shuffleGrouping("jobs");
        builder.setBolt("leaf", new Leaf(), THREADS).shuffleGrouping("split");
        // A local supervisor does not start a worker again that died: Nimbus has to give its tasks to another slot soon.
        Map<String, Object> daemons = Map.of(
            Config.TOPOLOGY_ENABLE_MESSAGE_TIMEOUTS, true, "supervisor.worker.timeout.secs", 5,
            "supervisor.worker.start.timeout.secs", 10, "nimbus.task.timeout.secs", 10, "nimbus.task.launch.secs", 10,
            "nimbus.monitor.freq.secs", 3);
        try (LocalCluster cluster = new LocalCluster.Builder().withDaemonConf(daemons).build();
             LocalCluster.LocalTopology running = cluster.submitTopology("faults", conf, builder.createTopology())) {
            while (DONE.size() <= roots / 4 && System.currentTimeMillis() < end) {
                Thread.sleep(10);
            }
            List<String> workers = Workers.ids();
            ProcessSimulator.killProcess(workers.get(workers.size() - 1));
            while (REPORTED.size() < roots && System.currentTimeMillis() < end) {
                Thread.sleep(100);
            }
            Thread.sleep(2000);   // time for a second report
            int again = REPORTED.values().stream().mapToInt(times -> times.get() - 1).sum();
            System.out.printf("{\"workers\": %d, \"reported\": %d, \"early\": %d, \"repeated\": %d, \"replayed\": %d}%n",
                workers.size(), REPORTED.size(), EARLY.get(), again, REPLAYED.get());
        }
        System.exit(0);
    }

    private Faults() { }
}
