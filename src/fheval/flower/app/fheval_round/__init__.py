"""The Flower app of a round; everything in it comes from the fheval that is installed where it runs."""
