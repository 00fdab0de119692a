"""Where work is done: processes of this computer, a Dask cluster, caches."""
