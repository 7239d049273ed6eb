"""The local OpenAI-compatible server, and the administration that the window needs."""
