#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/torch_files: one dict of tensors as torch.save writes it by each protocol of pickle, the same in the form
before PyTorch 1.6, and what torch reads from them as safetensors.

    python3 tools/golden/torch_files.py tests/golden/torch_files
"""
import pathlib
import sys

import safetensors.torch
import torch

folder = pathlib.Path(sys.argv[1])
folder.mkdir(exist_ok=True)
torch.manual_seed(4)
layer = torch.nn.Linear(5, 3)  # its state_dict has _metadata
tensors = layer.state_dict()
tensors["tied"] = tensors["weight"]
tensors["part"] = tensors["weight"][1:, 2:4]  # an offset, and rows with a gap
tensors["rows"] = tensors["weight"][1:]
tensors["turned"] = tensors["weight"].t()
tensors["scalar"] = torch.tensor(2.5)
tensors["empty"] = torch.empty(0, 4)
tensors["images"] = torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last)
tensors["näme \"quoted\""] = torch.nn.Parameter(torch.randn(2))
for dtype in (torch.float16, torch.bfloat16, torch.float64):
    tensors[str(dtype)] = torch.randn(3).to(dtype)
for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
    tensors[str(dtype)] = torch.tensor([0, 1, 100]).to(dtype)
for protocol in (2, 3, 4, 5):
    torch.save(tensors, folder / f"protocol{protocol}.bin", pickle_protocol=protocol)
torch.save(tensors, folder / "legacy.bin", _use_new_zipfile_serialization=False)
read = torch.load(folder / "protocol2.bin", weights_only=True)
safetensors.torch.save_file({name: value.detach().clone(memory_format=torch.contiguous_format) for name, value in read.items()},
                            folder / "read.safetensors", metadata={"note": f"torch {torch.__version__}"})
