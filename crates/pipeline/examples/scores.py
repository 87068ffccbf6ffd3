"""The query of scores.rs in Polars and in PySpark, for comparison: scores.py ENGINE FILE.parquet CODES.json [THREADS]

ENGINE is polars (streaming), polars-memory or pyspark; `scores --codes` prints CODES.json. Prints the number of scores,
their sum, seconds by the clock and seconds of CPU: of the query alone, and with the start of the engine.
"""

import json
import os
import sys
import time

DAY = 86_400
MOST_SECONDS = 86_400.0


def pairs(file):
    """(text, code) for each text of categories that counts; `A|B` has a row for each."""
    return [(text, code) for text, codes in json.load(open(file)).items() for code in codes]


def cpu(pid="self"):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def polars(file, codes, threads, engine):
    os.environ["POLARS_MAX_THREADS"] = str(threads)
    import polars as pl

    start, used = time.time(), cpu()
    log = pl.scan_parquet(file)
    last = log.filter(pl.col("time") < 9_000_000_000).select(pl.max("time")).collect(engine=engine).item()
    now = last // DAY * DAY + DAY - 1
    names = pl.LazyFrame(pairs(codes), schema={"categories": pl.String, "code": pl.UInt16}, orient="row")
    seconds = pl.col("seconds")
    ago = now - pl.col("last")
    days = ago // DAY
    recency = (
        pl.when(days < 2).then(5).when(days < 3).then(4).when(days < 6).then(3)
        .when(days < 10).then(2).when(days < 30).then(1).otherwise(0)
    )
    visits = pl.col("visits")
    frequency = (
        pl.when(visits == 0).then(0).when(visits < 5).then(1).when(visits < 10).then(2)
        .when(visits < 15).then(3).when(visits < 20).then(4).otherwise(5)
    )
    accident = (pl.col("timed") == pl.col("clicks")) & (pl.col("dwell") <= 10)
    scores = (
        log.select("person", "time", "categories", "seconds")
        .filter((pl.col("time") <= now) & (seconds.is_null() | ((seconds >= 0) & (seconds <= MOST_SECONDS))))
        .join(names, on="categories")
        .group_by("person", "code")
        .agg(
            pl.max("time").alias("last"),
            (now - pl.col("time") < 30 * DAY).sum().alias("visits"),
            seconds.cast(pl.Float64).sum().alias("dwell"),
            seconds.count().alias("timed"),
            pl.len().alias("clicks"),
        )
        .select(pl.when(accident).then(0).otherwise(recency + frequency).alias("score"))
    )
    done = scores.select(pl.len().alias("scores"), pl.col("score").cast(pl.Int64).sum()).collect(engine=engine)
    return done.item(0, 0), done.item(0, 1), time.time() - start, cpu() - used, cpu()


def pyspark(file, codes, threads):
    from pyspark.sql import SparkSession, functions as f

    spark = (
        SparkSession.builder.master(f"local[{threads}]").config("spark.driver.memory", "8g")
        .config("spark.sql.shuffle.partitions", 4 * threads).config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR").getOrCreate()
    )
    jvm = spark._jvm.java.lang.ProcessHandle.current().pid()
    both = lambda: cpu() + cpu(jvm)
    start, used = time.time(), both()
    log = spark.read.parquet(os.path.abspath(file))
    last = log.where(f.col("time") < 9_000_000_000).agg(f.max("time")).first()[0]
    now = last // DAY * DAY + DAY - 1
    names = f.broadcast(spark.createDataFrame(pairs(codes), "categories string, code int"))
    seconds = f.col("seconds")
    days = f.floor((now - f.col("last")) / DAY)
    recency = (
        f.when(days < 2, 5).when(days < 3, 4).when(days < 6, 3).when(days < 10, 2).when(days < 30, 1).otherwise(0)
    )
    visits = f.col("visits")
    frequency = (
        f.when(visits == 0, 0).when(visits < 5, 1).when(visits < 10, 2).when(visits < 15, 3).when(visits < 20, 4)
        .otherwise(5)
    )
    accident = (f.col("timed") == f.col("clicks")) & (f.col("dwell") <= 10)
    scores = (
        log.select("person", "time", "categories", "seconds")
        .where((f.col("time") <= now) & (seconds.isNull() | ((seconds >= 0) & (seconds <= MOST_SECONDS))))
        .join(names, "categories")
        .groupBy("person", "code")
        .agg(
            f.max("time").alias("last"),
            f.sum(f.when(now - f.col("time") < 30 * DAY, 1).otherwise(0)).alias("visits"),
            f.sum(seconds.cast("double")).alias("dwell"),
            f.count("seconds").alias("timed"),
            f.count("*").alias("clicks"),
        )
        .select(f.when(accident, 0).otherwise(recency + frequency).alias("score"))
    )
    count, total = scores.agg(f.count("*"), f.sum("score")).first()
    return count, total, time.time() - start, both() - used, both()


if __name__ == "__main__":
    engine, file, codes = sys.argv[1:4]
    threads = int(sys.argv[4]) if len(sys.argv) > 4 else 2
    if engine == "pyspark":
        count, total, seconds, query, all_in = pyspark(file, codes, threads)
    else:
        kind = "streaming" if engine == "polars" else "in-memory"
        count, total, seconds, query, all_in = polars(file, codes, threads, kind)
    print(f"{count} scores, sum {total}, {seconds:.2f} s, {query:.2f} CPU s, {all_in:.2f} with the engine's start")
