"""How bytes travel between roles: inside one process, or over Flower."""
