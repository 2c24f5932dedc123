"""Tasks of the models benchmark: `registry` lists them, one small file per kind of model."""
