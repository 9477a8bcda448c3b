"""Pages: what each shows as plain data (also its JSON), and a template over it.

call.py        one request: who, what the URL says, the console's parts
table.py       the table of pages: path, template, data, parameters
rendering.py   templates and their filters
routes.py      pages as routes: HTML, JSON, errors in words, headers
forms.py       changes as pages: form, preview, deed
overview.py  topics.py  messages.py  groups.py  ...      the data of pages
"""
