#!/usr/bin/env bash
# Version: PySpark 4.3.0 with pandas 2.3.3.
# Behaviour: the function of transformWithStateInPandas gets a column whose name begins with an underscore, is a word of
# Python or no name of it, as `_2`, `_3` and so on: Spark makes its frames of named tuples. The functions of
# applyInPandasWithState and mapInPandas get the names as they are.
# Seen:
#   transformWithStateInPandas: key _1 plain _3 _4
#   applyInPandasWithState: key _hidden plain a-b class
#   mapInPandas: key _hidden plain a-b class
# Needs python3 with venv, and Java 17 or later.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyspark==4.3.0 pandas==2.3.3 pyarrow==26.0.1 protobuf==7.36.2
mkdir in
echo '{"key": "k", "_hidden": 1, "plain": 2, "a-b": 3, "class": 4}' >in/1.json
cat >program.py <<'PROGRAM'
import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor

STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
builder = SparkSession.builder.master("local[1]").config("spark.sql.shuffle.partitions", "1")
builder = builder.config("spark.sql.streaming.stateStore.providerClass", STORE)
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")


class Names(StatefulProcessor):
    def init(self, handle): ...

    def handleInputRows(self, key, rows, timers):
        for frame in rows:
            yield pd.DataFrame({"names": [" ".join(frame.columns)]})

    def close(self): ...


def names(*given):
    for frame in given[-2] if len(given) == 3 else given[0]:
        yield pd.DataFrame({"names": [" ".join(frame.columns)]})


rows = spark.readStream.schema("key string, _hidden long, plain long, `a-b` long, class long").json("in")
by_key, out = rows.groupBy("key"), "names string"
steps = {
    "transformWithStateInPandas": by_key.transformWithStateInPandas(Names(), out, "append", "none"),
    "applyInPandasWithState": by_key.applyInPandasWithState(names, out, "n long", "append", "NoTimeout"),
    "mapInPandas": rows.mapInPandas(names, out),
}
for name, frame in steps.items():
    writer = frame.writeStream.foreachBatch(lambda batch, _: [print(f"{name}: {row.names}") for row in batch.collect()])
    writer.option("checkpointLocation", f"checkpoint/{name}").trigger(availableNow=True).start().awaitTermination()
PROGRAM
PYSPARK_PYTHON=$PWD/venv/bin/python venv/bin/python program.py 2>log | tee seen
diff - seen <<'SEEN'
transformWithStateInPandas: key _1 plain _3 _4
applyInPandasWithState: key _hidden plain a-b class
mapInPandas: key _hidden plain a-b class
SEEN
