"""An OCI image layout as one tar file, of which every byte follows from the images' content.

Times, owners and the order of files are fixed, so that equal files give equal digests on every
machine, and a digest in a manifest means what it says. Layers are not compressed: the archive
stays on this machine, and a compressor's release would become part of the digest.

Source of the formats: github.com/opencontainers/image-spec v1.1.1, image-layout.md, manifest.md,
config.md and layer.md.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG: Final = "application/vnd.oci.image.config.v1+json"
_LAYER: Final = "application/vnd.oci.image.layer.v1.tar"
_NAME: Final = "io.containerd.image.name"
"""The annotation from which ``ctr images import`` takes the name of an image."""
_CHUNK: Final = 2**20


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One file, folder or link of a layer, at a path without a leading slash."""

    path: str
    mode: int = 0o755
    source: Path | bytes | None = None
    """A file's content, or where it is; None makes a folder, unless it is a link."""
    link: str = ""
    """Where a symbolic link points."""


@dataclass(frozen=True, kw_only=True)
class Image:
    """What one image is: layers from the lowest up, and how it is started by default."""

    name: str
    """Repository and tag."""
    layers: tuple[tuple[Entry, ...], ...]
    environment: Mapping[str, str]
    entrypoint: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Blob:
    """Content by the digest of its bytes."""

    media_type: str
    digest: str
    content: bytes | Path

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.content.stat().st_size if isinstance(self.content, Path) else len(self.content)

    @property
    def descriptor(self) -> dict[str, Any]:
        """How other blobs refer to it."""
        return {"mediaType": self.media_type, "digest": self.digest, "size": self.size}


def write_archive(
    images: Sequence[Image], architecture: str, archive: Path, scratch: Path
) -> dict[str, str]:
    """Write all images into one archive; returns the digest of each by its name.

    Layers that images share are stored once; ``scratch`` is a folder for them, which the caller
    removes. ``architecture`` is Go's name of it, such as ``amd64``.
    """
    layers: dict[tuple[Entry, ...], Blob] = {}
    blobs: dict[str, Blob] = {}
    manifests: list[dict[str, Any]] = []
    digests: dict[str, str] = {}
    for image in images:
        for layer in image.layers:
            if layer not in layers:
                layers[layer] = _layer(layer, scratch / f"layer-{len(layers)}.tar")
        used = [layers[layer] for layer in image.layers]
        config = _blob(_CONFIG, _config(image, architecture, used))
        manifest = _blob(_MANIFEST, _manifest(config, used))
        blobs.update({each.digest: each for each in (*used, config, manifest)})
        manifests += [
            {**manifest.descriptor, "annotations": {_NAME: name}}
            for name in (image.name, by_digest(image.name, manifest.digest))
        ]
        digests[image.name] = manifest.digest
    _write(archive, manifests, blobs.values())
    return digests


def by_digest(name: str, digest: str) -> str:
    """The reference by which a pod's image is looked for, whatever tag stands before the digest."""
    return f"{name.rpartition(':')[0]}@{digest}"


def _layer(entries: Iterable[Entry], place: Path) -> Blob:
    with place.open("w+b") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for entry in sorted(entries, key=lambda each: each.path):
                _add(tar, entry)
        file.seek(0)
        return Blob(media_type=_LAYER, digest=f"sha256:{_sum(file)}", content=place)


def _add(tar: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(entry.path)
    info.mode = entry.mode
    if entry.link:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
        tar.addfile(info)
    elif entry.source is None:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
    elif isinstance(entry.source, bytes):
        info.size = len(entry.source)
        tar.addfile(info, io.BytesIO(entry.source))
    else:
        info.size = entry.source.stat().st_size
        with entry.source.open("rb") as file:
            tar.addfile(info, file)


def _config(image: Image, architecture: str, layers: Sequence[Blob]) -> dict[str, Any]:
    return {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "Env": [f"{name}={value}" for name, value in sorted(image.environment.items())],
            "Entrypoint": list(image.entrypoint),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
    }


def _manifest(config: Blob, layers: Sequence[Blob]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": config.descriptor,
        "layers": [layer.descriptor for layer in layers],
    }


def _blob(media_type: str, content: Mapping[str, Any]) -> Blob:
    text = json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
    digest = f"sha256:{hashlib.sha256(text).hexdigest()}"
    return Blob(media_type=media_type, digest=digest, content=text)


def _sum(file: IO[bytes]) -> str:
    total = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        total.update(chunk)
    return total.hexdigest()


def _write(archive: Path, manifests: Sequence[Mapping[str, Any]], blobs: Iterable[Blob]) -> None:
    index = {"schemaVersion": 2, "manifests": list(manifests)}
    entries = [
        Entry(path="oci-layout", mode=0o644, source=b'{"imageLayoutVersion":"1.0.0"}'),
        Entry(path="index.json", mode=0o644, source=json.dumps(index, sort_keys=True).encode()),
        *(
            Entry(path=f"blobs/{blob.digest.replace(':', '/')}", mode=0o644, source=blob.content)
            for blob in blobs
        ),
    ]
    with tarfile.open(archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for entry in sorted(entries, key=lambda each: each.path):
            _add(tar, entry)
