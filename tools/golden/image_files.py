#!/usr/bin/env python3
"""Small PNG and JPEG files of every form, what Pillow makes of them, and what transformers' image processors do.

    python3 tools/golden/image_files.py    (needs pillow, numpy and transformers; writes tests/golden/image_files)

NAME.png, NAME.jpg: a file; NAME.rgb: the bytes of Image.open(file).convert("RGB"). resized/FILTER-WxH.rgb: photo.png resized.
processed/NAME.json and NAME.f32: a preprocessor_config.json, and pixel_values of photo.png then tall.jpg, (2, height, width, 3).
"""
import io
import json
import pathlib
import shutil
import struct
import zlib

import numpy as np
import PIL
import transformers
from PIL import Image

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "tests/golden/image_files"
WIDTH, HEIGHT = 37, 23


def photo(width=WIDTH, height=HEIGHT, seed=7):
    """Smooth shades, sharp edges and noise."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    planes = [128 + 120 * np.sin(x / 5 + c) * np.cos(y / 4 - c) for c in range(3)]
    image = np.stack(planes, axis=-1) + generator.normal(0, 12, (height, width, 3))
    image[height // 3:height // 2, width // 4:width // 2] = (255, 0, 40)
    return np.clip(image, 0, 255).astype(np.uint8)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, depth, color, rows, more=b""):
    """A PNG as no library would write it: rows are bytes, unfiltered."""
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + more + chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows)))
            + chunk(b"IEND", b""))


def deep_rows(planes, generator):
    return [b"".join(struct.pack(">H", int(v)) for v in row) for row in generator.integers(0, 65536, (HEIGHT, WIDTH * planes))]


def files():
    generator = np.random.default_rng(11)
    image = Image.fromarray(photo())

    def saved(picture, kind, **options):
        out = io.BytesIO()
        picture.save(out, kind, **options)
        return out.getvalue()

    yield "photo.png", saved(image, "PNG")
    yield "grey.png", saved(image.convert("L"), "PNG")
    yield "one_bit.png", saved(image.convert("1"), "PNG")
    yield "palette.png", saved(image.quantize(40), "PNG")
    yield "palette_2_bits.png", saved(image.quantize(4), "PNG", bits=2)
    yield "palette_transparent.png", saved(image.quantize(16), "PNG", transparency=3)
    alpha = image.convert("RGBA")
    alpha.putalpha(Image.fromarray(generator.integers(0, 256, (HEIGHT, WIDTH)).astype(np.uint8)))
    yield "alpha.png", saved(alpha, "PNG")
    yield "grey_alpha.png", saved(alpha.convert("LA"), "PNG")
    yield "transparent_color.png", saved(image, "PNG", transparency=(255, 0, 40))
    yield "grey_2_bits.png", png(WIDTH, HEIGHT, 2, 0, [generator.bytes((WIDTH * 2 + 7) // 8) for _ in range(HEIGHT)])
    yield "grey_4_bits.png", png(WIDTH, HEIGHT, 4, 0, [generator.bytes((WIDTH * 4 + 7) // 8) for _ in range(HEIGHT)])
    shades = np.concatenate([generator.integers(0, 400, WIDTH * HEIGHT // 2), generator.integers(0, 65536, WIDTH * HEIGHT)])
    rows = shades[:WIDTH * HEIGHT].reshape(HEIGHT, WIDTH)
    yield "grey_16_bits.png", png(WIDTH, HEIGHT, 16, 0, [b"".join(struct.pack(">H", int(v)) for v in row) for row in rows])
    yield "grey_alpha_16_bits.png", png(WIDTH, HEIGHT, 16, 4, deep_rows(2, generator))
    yield "color_16_bits.png", png(WIDTH, HEIGHT, 16, 2, deep_rows(3, generator))
    yield "alpha_16_bits.png", png(WIDTH, HEIGHT, 16, 6, deep_rows(4, generator))
    yield "gamma_and_text.png", png(WIDTH, HEIGHT, 8, 2, [bytes(row.flatten()) for row in photo()],
                                    chunk(b"gAMA", struct.pack(">I", 30000)) + chunk(b"tEXt", b"a\0b"))
    yield "photo.jpg", saved(image, "JPEG", quality=90)
    yield "full_chroma.jpg", saved(image, "JPEG", quality=80, subsampling=0)
    yield "half_chroma.jpg", saved(image, "JPEG", quality=80, subsampling=1)
    yield "progressive.jpg", saved(image, "JPEG", quality=75, progressive=True)
    yield "grey.jpg", saved(image.convert("L"), "JPEG")
    yield "cmyk.jpg", saved(image.convert("CMYK"), "JPEG", quality=95)
    exif = Image.Exif()
    exif[0x0112] = 6
    yield "turned.jpg", saved(image, "JPEG", exif=exif)
    yield "tall.jpg", saved(Image.fromarray(photo(19, 44, 8)), "JPEG", quality=92)


def processors():
    mean, deviation = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    names = dict(do_rescale=True, rescale_factor=1 / 255, do_normalize=True, image_mean=mean, image_std=deviation, do_resize=True)
    yield "vit", transformers.ViTImageProcessor(size={"height": 16, "width": 16}, resample=2, **names)
    yield "clip", transformers.CLIPImageProcessor(size={"shortest_edge": 18}, resample=3, do_center_crop=True,
                                                  crop_size={"height": 16, "width": 16}, **names)
    yield "convnext", transformers.ConvNextImageProcessor(size={"shortest_edge": 16}, crop_pct=0.875, resample=3, **names)
    yield "padded", transformers.CLIPImageProcessor(size={"shortest_edge": 13}, resample=0, do_center_crop=True,
                                                    crop_size={"height": 16, "width": 16}, **names)
    names.update(do_normalize=False)
    yield "plain", transformers.ViTImageProcessor(size={"height": 16, "width": 16}, resample=1, **names)


def main():
    shutil.rmtree(FOLDER, ignore_errors=True)
    for part in ("resized", "processed"):
        (FOLDER / part).mkdir(parents=True)
    (FOLDER / "versions.txt").write_text(f"pillow {PIL.__version__}, numpy {np.__version__}, transformers {transformers.__version__}\n")
    for name, data in files():
        (FOLDER / name).write_bytes(data)
        (FOLDER / f"{name}.rgb").write_bytes(Image.open(io.BytesIO(data)).convert("RGB").tobytes())
    image = Image.open(FOLDER / "photo.png").convert("RGB")
    for number, name in enumerate(("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")):
        for size in ((11, 7), (5, 40), (90, 9), (64, 64), (37, 10), (8, 23), (1, 1)):
            (FOLDER / f"resized/{name}-{size[0]}x{size[1]}.rgb").write_bytes(image.resize(size, resample=number).tobytes())
    pictures = [Image.open(FOLDER / name).convert("RGB") for name in ("photo.png", "tall.jpg")]
    for name, processor in processors():
        values = processor(pictures, return_tensors="np")["pixel_values"]
        config = {key: value for key, value in processor.to_dict().items() if value is not None}
        (FOLDER / f"processed/{name}.json").write_text(json.dumps(config, indent=1, default=list) + "\n")
        (FOLDER / f"processed/{name}.f32").write_bytes(np.ascontiguousarray(values.transpose(0, 2, 3, 1), dtype="<f4").tobytes())


if __name__ == "__main__":
    main()
