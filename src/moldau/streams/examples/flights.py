"""Which hours, and which airlines, kept New York waiting? Two flows over the departures of a year.

    departures ──┬── hour by hour, with the weather of the hour ──▶ delays-by-hour
                 │                        ▲
    weather ─────│────────────────────────┘ (a table)
                 └── airline by airline ──────────────────────────▶ delays-by-carrier (a table)

`make demo` fills the two topics on the left, runs this file, and compares the topics on the right with what
pandas makes of the same data. On a broker of your own that has the topics:

    moldau streams run flights.py --bootstrap-server 127.0.0.1:9092 --schema-registry http://127.0.0.1:8081
"""

from pyspark.sql import DataFrame
from pyspark.sql.functions import avg, col, count, max, sum, window

from moldau.streams import App

app = App("delays")

# Avro: the schema registry says which columns there are. Half-way the producer begins to say the distance.
departures = app.topic("departures", key="carrier", value="avro")
weather = app.topic(
    "weather",
    key=["origin", "time_hour"],
    schema="origin string, time_hour timestamp, temp double, wind_speed double, precip double, visib double",
)


@app.to("delays-by-hour", key=["origin", "time_hour"], partitions=2)
def by_hour() -> DataFrame:
    """Each hour of each airport, written once: when it is over for everybody who was to leave in it.

    Records come in the order in which flights really left, and one left 21.7 hours late. The watermark lets
    an hour stay open until departures of three days later are seen.
    """
    hours = (
        departures.stream()
        .withWatermark("time_hour", "3 days")
        .groupBy(window("time_hour", "1 hour"), "origin")
        .agg(
            count("*").alias("flights"),
            count("dep_delay").alias("departed"),  # the others were cancelled
            avg("dep_delay").alias("delay"),
        )
        .select("origin", col("window.start").alias("time_hour"), "flights", "departed", "delay")
    )
    return hours.join(weather.table(), ["origin", "time_hour"], "left")


@app.table("delays-by-carrier", key="carrier", partitions=2)
def by_carrier() -> DataFrame:
    """Each airline's flights and their delay so far: a row for each, which changes as they leave."""
    return (
        departures.stream()
        .where("carrier is not null")
        .groupBy("carrier")
        .agg(
            count("*").alias("flights"),
            count("dep_delay").alias("departed"),
            avg("dep_delay").alias("delay"),
            max("dep_delay").alias("longest"),
            sum("distance").alias("miles"),  # 0 in departures that were written with the older schema
        )
    )
