"""What `…/config/validate` answers, and what a connector's configuration is checked by.

infos.py        an answer's shape: a definition and a value for each setting
common_rows.py  the settings that every connector has, those of sinks and of sources
overrides.py    which settings of its Kafka clients a connector may change
validating.py   a configuration -> an answer
plugins.py      which plugins there are, with their settings
"""
