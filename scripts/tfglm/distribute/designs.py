"""Send a design to the workers: once, as a file in a folder that they share with the chief.

A task names its design by the digest of its text. A worker that does not know this design reads it here: at the start of a
fit, or after the worker was killed and restarted. The files exist during a fit. A complete fit removes them, and the next
fit removes those of a fit that was killed.
"""

import shutil
from pathlib import Path

from tfglm import digests
from tfglm.distribute.tasks import Document
from tfglm.errors import UserError


class Designs:
    """The designs in a folder, each in a file called after its digest; what has been read is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._documents: dict[str, Document] = {}

    @classmethod
    def beside(cls, folder: Path) -> "Designs":
        """The designs of the announcements in `folder`."""
        return cls(folder / "designs")

    def put(self, document: Document) -> None:
        """Write a design, unless that has been done."""
        if document.digest in self._documents:
            return
        digests.replace(self.folder / document.digest, document.text)
        self._documents[document.digest] = document

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self._documents.clear()

    def get(self, digest: str) -> Document:
        """Return the design with this digest. Raises UserError if its file is gone, or has another digest."""
        if digest not in self._documents:
            path = self.folder / digest
            try:
                document = Document.of(path.read_bytes().decode())
            except (OSError, ValueError) as error:
                raise UserError(
                    f"the design in {path}, which the chief has written, cannot be read: {error}"
                ) from error
            if document.digest != digest:
                raise UserError(f"{path}: the design has changed since the chief wrote it\n  start the fit again")
            self._documents[digest] = document
        return self._documents[digest]
