"""The web console: pages and JSON over what a cluster tells any client.

facts/      one snapshot of the cluster in memory, refreshed in slices; what happened between two of them
messages/   records: read, decoded, filtered by expressions, exported
changes/    what changes something: its preview, and then the deed
api/        JSON: routes, their OpenAPI document
pages/      templates over the same data; every page is also there as JSON
static/     stylesheet, scripts; vendor/ has those of others with their licences
access.py   who may do what: logins, sessions, requests of other sites
"""
