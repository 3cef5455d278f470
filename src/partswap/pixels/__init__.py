"""Edits in pixels: regions pasted into the image, and what the whole network says of that."""
