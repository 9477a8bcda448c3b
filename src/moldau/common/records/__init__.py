"""Record batches: the header, the records inside, compression, and control records. Bytes in, values out; no
files.
"""
