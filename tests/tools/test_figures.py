"""Images on their way to a model: small enough, or not sent."""

import base64
import io
import struct

import pytest
from PIL import Image

from vibe_jupyter.files.images import MAX_BYTES, MAX_SIDE, fit_image
from vibe_jupyter.protocol import ImagePart


def picture(width: int, height: int, kind: str = "PNG", *, noise: bool = False) -> ImagePart:
    image = Image.effect_noise((width, height), 100) if noise else Image.new("RGB", (width, height), "red")
    out = io.BytesIO()
    image.convert("RGB").save(out, format=kind)
    return ImagePart(media_type=f"image/{kind.lower()}", data=base64.b64encode(out.getvalue()).decode())


def size(image: ImagePart | None) -> tuple[int, int]:
    assert image is not None
    with Image.open(io.BytesIO(base64.b64decode(image.data))) as opened:
        return opened.size


def test_a_small_figure_goes_as_it_is() -> None:
    image = picture(640, 480)
    assert fit_image(image) is image


@pytest.mark.requirement("notebook.read_output.images")
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP"])
def test_a_large_one_is_made_smaller_in_its_proportions(kind: str) -> None:
    small = fit_image(picture(4000, 1000, kind))
    assert size(small) == (MAX_SIDE, 256)
    assert small is not None
    assert small.media_type == "image/png"


@pytest.mark.requirement("notebook.read_output.images")
def test_a_heavy_one_is_not_sent() -> None:
    heavy = picture(1000, 1000, noise=True)
    assert len(base64.b64decode(heavy.data)) > MAX_BYTES
    made = fit_image(heavy)
    assert made is None or len(base64.b64decode(made.data)) <= MAX_BYTES


@pytest.mark.parametrize("data", ["", "no base64!", base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()])
def test_what_is_no_image_is_not_sent(data: str) -> None:
    assert fit_image(ImagePart(media_type="image/png", data=data)) is None


def test_a_header_that_lies_of_its_size_does_no_harm() -> None:
    bomb = (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I4sII", 13, b"IHDR", 60_000, 60_000)
        + b"\x08\x02\x00\x00\x00"
        + b"\x00" * 50
    )
    assert fit_image(ImagePart(media_type="image/png", data=base64.b64encode(bomb).decode())) is None
