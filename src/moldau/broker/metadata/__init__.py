"""The cluster's metadata: an ordered log of changes, and the image that replaying it gives.

image.py          the immutable image
changes.py        the changes, and replay: the only way to a new image
difference.py     the changes that lead from one image to another
view.py           the current image, and the parts of the broker that follow it
store.py          the interface of a metadata store
embedded.py       the store of a single broker: one local file
shared_memory.py  a store that several brokers of one process share, for simulations
frames.py         how that file is laid out and checked
codec.py          changes and images as JSON
configs.py        settings in effect, from image and start-up settings
describe.py       the same with their sources
"""
