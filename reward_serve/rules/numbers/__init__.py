"""Numbers in any notation: parse them exactly, find them in text, rewrite them as plain digits."""
