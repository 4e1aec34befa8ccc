"""Container images made here, from programs and files that are here: same input, same digest.

``oci`` writes the archive, ``debian`` makes the files that programs of a distribution need, and
``local`` says which images a local node runs in place of which production images.
"""
