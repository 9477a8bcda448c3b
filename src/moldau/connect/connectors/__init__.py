"""The connectors that come with Moldau, a folder each; `moldau.connect.plugins` finds and imports them."""
