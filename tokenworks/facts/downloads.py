"""How weights arrive from where they are kept."""

from __future__ import annotations

CONNECTIONS = 8
"""Files that the hub's own client fetches at once: ``max_workers`` of ``snapshot_download``
(huggingface.co/docs/huggingface_hub/package_reference/file_download)."""

DOWNLOAD_MIB_PER_SECOND = 59
"""Half of a line of 1 Gbit/s (10**9 / 8 / 2**20 / 2), until somebody measured: it only sets when a
download counts as stuck, so it should be slow."""
