#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/events.tfevents: an event file by TensorBoard's own messages and record writer.

    python3 tools/golden/event_file.py tests/golden/events.tfevents
"""
import sys

from tensorboard.compat.proto import event_pb2, summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

Value = summary_pb2.Summary.Value


def scalars(**values):
    return summary_pb2.Summary(value=[Value(tag=tag.replace("_", "/", 1), simple_value=value) for tag, value in values.items()])


def text(tag, words):
    shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
    tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[words.encode()], tensor_shape=shape)
    data = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
    return summary_pb2.Summary(value=[Value(tag=tag, tensor=tensor, metadata=summary_pb2.SummaryMetadata(plugin_data=data))])


events = [
    event_pb2.Event(wall_time=1.5, file_version="brain.Event:2"),
    event_pb2.Event(wall_time=1.5, step=301, session_log=event_pb2.SessionLog(status=event_pb2.SessionLog.START)),
    event_pb2.Event(wall_time=2.25, step=301, summary=scalars(train_loss=0.625, train_grad_norm=0.0, memory_rss_bytes=3.5e9)),
    event_pb2.Event(wall_time=3.0, step=300, summary=text("plan/text_summary", "plan \u00fc\n" * 40)),
    event_pb2.Event(wall_time=4.0, step=1 << 40, summary=scalars(eval_loss=-1e-3)),
]
with open(sys.argv[1], "wb") as file:
    writer = RecordWriter(file)
    for event in events:
        writer.write(event.SerializeToString())
    writer.flush()
