"""Conversations that last: trees of turns with their exact token ids, found again by session id or by their
messages.
"""
