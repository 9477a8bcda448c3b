"""The OpenAPI document of the REST proxy, made from its tables of operations, and a page to try them.

schemas.py    objects of v3's requests and responses      v2.py    operations and objects of v2
document.py   the document                                pages.py, page.*   /openapi.json and /
"""
