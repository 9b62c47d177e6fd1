import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Map;
import java.util.Queue;
import java.util.StringTokenizer;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.FailedException;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.ReportedFailedException;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** The pipeline as a topology of Storm 2; it runs in a Storm cluster. */
public class LineCount {
  /** Keeps each line until its tree is acked; a failed or overdue line is emitted again. */
  public static class Lines extends BaseRichSpout {
    private final Map<String, String> pending = new HashMap<>();
    private final Queue<String> waiting = new ArrayDeque<>();
    private SpoutOutputCollector collector;

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector collector) {
      this.collector = collector;
      pending.put("line-1", "the fox and the dog");
      pending.put("line-2", "room 2 is free");
      pending.put("line-3", "");
      waiting.addAll(pending.keySet());
    }

    @Override
    public void nextTuple() {
      String id = waiting.poll();
      if (id != null) collector.emit(new Values(id, pending.get(id)), id);
    }

    @Override
    public void ack(Object id) {
      pending.remove(id);
      System.out.println("done " + id);
    }

    @Override
    public void fail(Object id) {
      waiting.add((String) id);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(new Fields("id", "text"));
    }
  }

  /** One tuple for each word, anchored to the line by BaseBasicBolt. */
  public static class Split extends BaseBasicBolt {
    @Override
    public void execute(Tuple line, BasicOutputCollector collector) {
      StringTokenizer words = new StringTokenizer(line.getStringByField("text"));
      for (int position = 0; words.hasMoreTokens(); position++)
        collector.emit(new Values(line.getStringByField("id") + "/" + position, words.nextToken()));
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
      declarer.declare(new Fields("key", "word"));
    }
  }

  /** Counts a word; FailedException fails the tree, and the spout emits its line again. */
  public static class Count extends BaseBasicBolt {
    private final Map<String, String> words = new HashMap<>();
    private int awayForCalls = 2;

    @Override
    public void execute(Tuple word, BasicOutputCollector collector) {
      String text = word.getStringByField("word");
      if (!text.chars().allMatch(Character::isLetter)) {
        collector.reportError(new ReportedFailedException("'" + text + "' is not a word"));
        return; // acked: it is not sent again
      }
      if (awayForCalls-- > 0) throw new FailedException("the store is away");
      words.put(word.getStringByField("key"), text);
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {}
  }

  public static void main(String[] args) throws Exception {
    TopologyBuilder builder = new TopologyBuilder();
    builder.setSpout("lines", new Lines());
    builder.setBolt("split", new Split(), 2).shuffleGrouping("lines");
    builder.setBolt("count", new Count(), 2).fieldsGrouping("split", new Fields("key"));
    StormSubmitter.submitTopology("line-count", new Config(), builder.createTopology());
  }
}
