"""Real servers for tests, one file each; `catalog` names them."""
