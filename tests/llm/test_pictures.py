"""Pictures are really made smaller, step by step, and only then left out."""

import base64
import io
import random

import pytest

from hermes.core.frame import PICTURE_REWRITES, Rewrite
from hermes.core.messages import ImagePart, Message, Role, ToolResultPart, user_message
from hermes.llm.lineage import rewrite_message
from hermes.llm.pictures import PICTURE_STEPS, choose_picture_step, fit_picture

pytestmark = pytest.mark.needs("bubblewrap")
Image = pytest.importorskip("PIL.Image")


def noise(width: int, height: int, form: str = "PNG", **how: object) -> ImagePart:
    """A picture that hardly compresses."""
    picture = Image.frombytes("RGB", (width, height), random.Random(1).randbytes(width * height * 3))
    return saved(picture, form, **how)


def saved(picture: "Image.Image", form: str, **how: object) -> ImagePart:
    out = io.BytesIO()
    picture.save(out, form, **how)
    return ImagePart(media_type=f"image/{form.lower()}", data=base64.b64encode(out.getvalue()).decode())


def opened(image: ImagePart | None) -> "Image.Image":
    assert image is not None
    found = Image.open(io.BytesIO(base64.b64decode(image.data)))
    assert image.media_type == f"image/{found.format.lower()}"
    return found


def test_a_picture_within_the_limit_stays_as_it_is() -> None:
    small = noise(40, 30)
    assert fit_picture(small, Rewrite.SMALL_IMAGES) is small or fit_picture(small, Rewrite.SMALL_IMAGES) == small


@pytest.mark.parametrize("step", PICTURE_REWRITES[:-1])
def test_each_step_keeps_its_limits_and_the_form(step: Rewrite) -> None:
    wide = saved(Image.new("RGB", (9_000, 300), "red"), "PNG")
    found = fit_picture(wide, step)
    assert opened(found).size[0] == PICTURE_STEPS[step].pixels and opened(found).size[1] == found_height(step)
    loud = fit_picture(noise(1_500, 1_500), step)
    assert loud is not None and len(loud.data) <= PICTURE_STEPS[step].bytes
    assert fit_picture(noise(1_500, 1_500), step) == loud


def found_height(step: Rewrite) -> int:
    return int(300 * PICTURE_STEPS[step].pixels / 9_000)


def test_a_picture_stands_upright_as_its_camera_said() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    wide = Image.new("RGB", (3_000, 1_000), "blue")
    found = opened(fit_picture(saved(wide, "JPEG", exif=exif), Rewrite.IMAGES_1000))
    assert found.size == (333, 1_000) and not found.getexif()


def test_of_a_moving_picture_the_first_frame_is_left_and_glass_stays_glass() -> None:
    frames = [Image.new("P", (50, 50), color) for color in range(3)]
    moving = saved(frames[0], "GIF", save_all=True, append_images=frames[1:])
    assert getattr(opened(fit_picture(moving, Rewrite.SMALL_IMAGES)), "n_frames", 1) == 1
    glass = Image.new("RGBA", (9_000, 20), (255, 0, 0, 0))
    assert opened(fit_picture(saved(glass, "PNG"), Rewrite.IMAGES_1000)).mode == "RGBA"


def test_a_bomb_and_a_broken_file_are_not_decoded() -> None:
    bomb = saved(Image.new("1", (12_000, 12_000)), "PNG")
    assert len(bomb.data) < PICTURE_STEPS[Rewrite.SMALL_IMAGES].bytes
    assert fit_picture(bomb, Rewrite.IMAGES_1000) is bomb
    broken = ImagePart(data="AAAA" * 2_000_000)
    assert fit_picture(broken, Rewrite.IMAGES_1000) is None
    address = ImagePart(url="https://example.com/a.png")
    assert fit_picture(address, Rewrite.NO_LARGE_IMAGES) is address


def test_the_next_step_is_the_first_that_changes_anything_and_keeps_what_the_provider_names() -> None:
    wide = saved(Image.new("RGB", (3_000, 30), "red"), "PNG")
    assert choose_picture_step([wide], None, "", halve=False) is Rewrite.IMAGES_2000
    assert choose_picture_step([wide], None, "max allowed size: 1568 pixels", halve=False) is Rewrite.IMAGES_1000
    loud = noise(1_500, 1_500)
    said = "image exceeds 5 MB maximum: 6751234 bytes > 5242880 bytes"
    assert choose_picture_step([loud], None, said, halve=False) is Rewrite.SMALL_IMAGES
    assert choose_picture_step([loud], Rewrite.IMAGES_1000, "", halve=False) is Rewrite.NO_LARGE_IMAGES
    assert choose_picture_step([loud], Rewrite.NO_LARGE_IMAGES, "", halve=False) is None
    step = choose_picture_step([loud], Rewrite.SMALL_IMAGES, "", halve=True)
    assert step is not None
    before, after = fit_picture(loud, Rewrite.SMALL_IMAGES), fit_picture(loud, step)
    assert before is not None and after is not None and len(after.data) <= len(before.data) // 2
    assert choose_picture_step([], None, "", halve=True) is None


def test_what_is_left_out_is_said_truly() -> None:
    loud = noise(300, 300)
    result = ToolResultPart(call_id="a", name="t", text="see", images=(loud, noise(10, 10)))
    for message in (user_message("look", loud), Message(Role.TOOL, (result,))):
        sent = rewrite_message(message, (Rewrite.NO_LARGE_IMAGES,), carried=True)
        assert "too large to send" in repr(sent) and "does not take" not in repr(sent)
        assert len(list(sent.images())) == len(list(message.images())) - 1
