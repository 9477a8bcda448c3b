"""Files: first steps with Kafka's FileStream connectors, folders of files into topics, topics into folders.

stream_source.py stream_sink.py   FileStreamSource, FileStreamSink: lines, as Kafka's
source.py                         FileSource: files that grow or come; readers.py: formats; folder.py: which
sink.py                           FileSink: Parquet, CSV, JSON; manifest.py: exactly once; layout.py: where to
datagen.py                        Datagen: records of a schema, made up
"""
