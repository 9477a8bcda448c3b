"""Protobuf: .proto files and their descriptors, understood, printed and compared as in Confluent's registry.

    reader.py  parser.py  options.py   text -> elements.py
    printer.py normalizing.py          elements -> text: canonical, and without what has no meaning
    scopes.py                          which type a name means
    comparing.py                       differences between two files
    from_descriptor.py  descriptors.py a FileDescriptorProto -> elements, and back; pools for coders of values
    tagging.py                         tags of messages and fields within a text
    known_imports.py                   files that may be imported without a reference

No protoc: the text is read by our own parser, in time linear to it, so that no text can hang or kill the
process. It understands what the parser of Confluent's registry (Square's Wire) does, and editions.
"""

from moldau.schemas.protobuf.parsed import ProtobufLanguage

LANGUAGE = ProtobufLanguage()
