"""Moldau's own APIs for mirrors of other clusters' topics."""
