"""A file that a model server made, as a step."""

from vibe_jupyter.protocol import DOWNLOAD_MIME, PICTURES_MIME, Download, FileProduced, Headline, MimeBundle, Picture
from vibe_jupyter.ui.pictures import size_words
from vibe_jupyter.ui.step import Step

_NAME = "server_file"
_RASTER = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def file_step(event: FileProduced) -> Step:
    """The step of a file; failed where there is none."""
    headline = Headline(
        verb="Made the file",
        doing="Making the file",
        asking="Make the file",
        target=event.name or event.file_id,
        note=f"on {event.host}",
    )
    if event.problem:
        return Step(headline, _NAME, outcome="error", summary=event.problem, seconds=0.0)
    display: MimeBundle = {}
    if event.data and event.media_type in _RASTER:
        picture = Picture(media_type=event.media_type, data=event.data, label=event.name)
        display[PICTURES_MIME] = [picture.model_dump()]
    elif event.preview:
        display["text/plain"] = event.preview
    display[DOWNLOAD_MIME] = Download(name=event.name, data=event.data, path=event.path).model_dump()
    return Step(headline, _NAME, outcome="ok", summary=size_words(event.size), display=display)
