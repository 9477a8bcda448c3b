"""Who may do what and how much, as a broker decides it and as a tool explains it.

acl_index.py        which of many ACLs decides            acl_text.py    an ACL as a sentence
acl_explanation.py  the same for people: the rule, and the ACLs behind it
quota_entities.py   whose quota holds for a client
"""
