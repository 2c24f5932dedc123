"""A federation on handwritten digits in Flower, with contributions by fedmerit."""
