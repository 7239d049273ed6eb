"""From Markdown to a laid-out text document, piece by piece while it streams."""
