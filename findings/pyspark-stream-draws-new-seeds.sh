#!/usr/bin/env bash
# Version: PySpark 4.3.0.
# Behaviour: a batch of a stream that runs again, because its function raised, has the same rows and other values of
# rand(42) and uuid(42): Spark replaces the seed of every random function for each run of a batch. Without a stream the
# values of rand(42) stay.
# Seen:
#   stream, id: same
#   stream, rand(42): other
#   stream, uuid(42): other
#   no stream, rand(42): same
# Needs python3 with venv, and Java 17 or later.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyspark==4.3.0
mkdir in
echo '{"id": 1}' >in/1.json
cat >program.py <<'PROGRAM'
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
seen = []
names = {"id": F.col("id"), "rand(42)": F.rand(42), "uuid(42)": F.expr("uuid(42)")}


def look(batch, batch_id):
    seen.append(batch.collect()[0])
    if len(seen) == 1:
        raise OSError("again")


for _ in range(2):
    lines = spark.readStream.schema("id long").json("in").withColumns(names)
    writer = lines.writeStream.foreachBatch(look).option("checkpointLocation", "checkpoint")
    try:
        writer.trigger(availableNow=True).start().awaitTermination()
    except Exception:
        assert len(seen) == 1
for name in names:
    print(f"stream, {name}: {'same' if seen[0][name] == seen[1][name] else 'other'}")
first, second = (spark.read.schema("id long").json("in").withColumn("r", F.rand(42)).collect()[0].r for _ in range(2))
print(f"no stream, rand(42): {'same' if first == second else 'other'}")
PROGRAM
PYSPARK_PYTHON=$PWD/venv/bin/python venv/bin/python program.py 2>log | tee seen
diff - seen <<'SEEN'
stream, id: same
stream, rand(42): other
stream, uuid(42): other
no stream, rand(42): same
SEEN
