"""Runs connectors and tasks in this process.

interface.py        what the herder asks for, and what it is told
local.py            the local engine: connector_instance.py lists what there is to read, task_thread.py runs
                    a task, building.py puts one together (setup.py rows.py converters.py steps.py)
sink_task.py        polls, writes, flushes, commits. sink_member.py: the group's member; sink_partitions.py
                    and sink_notes.py: the runs, and what is noted of them (pure); sink_writing.py: what
                    becomes of refused records; sink_keeper.py keeps members alive whose sinks are slow
source_task.py      reads in turns, commits. source_reading.py: a partition; source_writer.py: transactions;
                    source_offsets.py: connect-offsets; topics.py: topics to create
reading.py          bytes -> batches with transforms; writing.py: batches -> bytes
problems.py         errors.*: retries, tolerance, log; dead_letters.py restarts.py hiding.py metrics.py
"""
