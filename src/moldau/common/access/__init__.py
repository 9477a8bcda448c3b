"""Who may do what and how much, as a broker decides it and as a tool explains it.

acl_index.py        which of many ACLs decides            acl_text.py    an ACL as a sentence
quota_entities.py   whose quota holds for a client
"""
