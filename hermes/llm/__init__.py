"""The reliable client over providers: classification, retry, lineage buffers, token accounting."""
