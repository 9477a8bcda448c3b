"""JSON: its document (OpenAPI 3.1). The routes themselves are made of the tables of pages and changes."""
