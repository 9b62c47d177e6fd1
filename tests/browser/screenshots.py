"""Makes screenshots small: a PNG of at most 256 colours."""

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt
from playwright.sync_api import Page

COLOURS = 256
READ_PIXELS = """async (png) => {
    const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${png}`)).blob());
    const canvas = new OffscreenCanvas(image.width, image.height).getContext("2d");
    canvas.drawImage(image, 0, 0);
    const bytes = canvas.getImageData(0, 0, image.width, image.height).data;
    let text = "";
    for (let n = 0; n < bytes.length; n += 32768) text += String.fromCharCode(...bytes.subarray(n, n + 32768));
    return {width: image.width, height: image.height, pixels: btoa(text)};
}"""
Numbers = npt.NDArray[np.int64]


def reduced(canvas: Page, png: bytes) -> bytes:
    """Return a PNG with its 256 most frequent colours; `canvas` is an empty page, which decodes it."""
    image = canvas.evaluate(READ_PIXELS, base64.b64encode(png).decode())
    rgba = np.frombuffer(base64.b64decode(image["pixels"]), np.uint8).reshape(-1, 4)
    packed = (rgba[:, :3].astype(np.int64) << np.array([16, 8, 0])).sum(axis=1)
    colours, place, counts = np.unique(packed, return_inverse=True, return_counts=True)
    palette = _split(colours[np.argsort(-counts)[:COLOURS]])
    nearest = np.array([np.abs(palette - each).sum(axis=1).argmin() for each in _split(colours)], np.uint8)
    rows = nearest[place].reshape(image["height"], image["width"])
    lines = b"".join(b"\0" + row.tobytes() for row in rows)
    head = struct.pack(">IIBBBBB", image["width"], image["height"], 8, 3, 0, 0, 0)
    chunks = [(b"IHDR", head), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", zlib.compress(lines, 9))]
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(*each) for each in [*chunks, (b"IEND", b"")])


def _split(colours: Numbers) -> Numbers:
    """Return colours as rows of red, green and blue."""
    return np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
